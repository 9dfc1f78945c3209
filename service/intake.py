"""Request bodies: what kinds are taken, how large, and how many at a time in one process.

What a body says is not looked at here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterator,
)
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

from aiohttp import web

from indexing.ingest.compression import CompressionError, inflate_gzip
from indexing.lanes import Lanes, take_within
from service import problems
from service.auth import hash_credential

T = TypeVar("T")

# As sent. A batch of an SDK, 512 spans with a long stack trace each, is half of this unpacked.
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
# Unpacked. Text of logs and spans packs to a tenth, so a sender that packs reaches this first.
MAX_CONTENT_BYTES: Final = 32 * 1024 * 1024

# All bodies that one process holds, however many connections they come by.
MAX_HELD_BYTES: Final = 128 * 1024 * 1024
# A body of the largest size takes this long at two megabits a second. What senders that fell
# silent hold would otherwise be held for ever, and honest ones be told to come again.
BODY_SECONDS: Final = 60.0

# Of those, by one credential: it leaves room for others, whatever it does.
MAX_HELD_BYTES_OF_ONE: Final = 64 * 1024 * 1024

# Bodies being unpacked and read: each takes several times its size, and there are two cores.
READ_AT_ONCE: Final = 2
# How long a body that has arrived may wait for that: exporters of spans give up after ten.
TURN_SECONDS: Final = 5.0

# How long it is finished for at the end, after all whose sender is still there has been.
FINISH_SECONDS: Final = 1.0

_GZIP_NAMES: Final = frozenset({"gzip", "x-gzip"})
_PIECE_BYTES: Final = 64 * 1024


class Intake:
    """What one process takes in at a time; anything beyond is told to come again."""

    def __init__(self) -> None:
        self._held: Counter[Hashable] = Counter()
        self._turns = asyncio.Semaphore(READ_AT_ONCE)
        self._lanes = Lanes(READ_AT_ONCE)
        self._attended: set[asyncio.Task[Any]] = set()

    async def attend(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the work done to its end, though whoever waits for it goes away."""
        task = asyncio.create_task(work)
        self._attended.add(task)
        task.add_done_callback(self._attended.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait a moment for what nobody waits for any more, then break it off."""
        if self._attended:
            _, late = await asyncio.wait(self._attended, timeout=FINISH_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    @asynccontextmanager
    async def receive(self, request: web.Request, kinds: Collection[str]) -> AsyncIterator[Body]:
        """Read the body of a request whose media type is one of `kinds`, which may end in `/*`.

        The body counts as held, and its reader has a turn, until the context is left.

        Raises:
            Problem: 415 for its kind or packing, 413 for its size, 400 when it does not arrive,
                503 when too much is held already, or waits to be read.
        """
        sender = hash_credential(request.headers)
        kind = _check_kind(request, kinds)
        packed = _check_packing(request)
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise _body_too_large()
        pieces: list[bytes] = []
        held = 0
        try:
            async for piece in _receive(request):
                pieces.append(piece)
                held += len(piece)
                self._held[sender] += len(piece)
                if held > MAX_BODY_BYTES:
                    raise _body_too_large()
                if (
                    self._held[sender] > MAX_HELD_BYTES_OF_ONE
                    or self._held.total() > MAX_HELD_BYTES
                ):
                    raise _too_much_at_once()
            turn = take_within(TURN_SECONDS, self._lanes.take(sender), self._turns)
            async with AsyncExitStack() as taken:
                try:
                    await taken.enter_async_context(turn)
                except TimeoutError as error:
                    raise _too_much_at_once() from error
                yield Body(kind, b"".join(pieces), packed)
        finally:
            self._held[sender] -= held
            if not self._held[sender]:
                del self._held[sender]


class Body:
    """A body that has arrived; `kind` is its media type."""

    def __init__(self, kind: str, data: bytes, packed: bool) -> None:  # noqa: FBT001 - as it came
        self.kind = kind
        self._data = data
        self._packed = packed

    async def read(self, work: Callable[[bytes], T]) -> T:
        """Unpack the body and do the work on it, both in a thread.

        Raises:
            Problem: 400 where it cannot be unpacked, 413 where that makes too much of it.
        """
        return await asyncio.to_thread(lambda: work(self._unpack()))

    def _unpack(self) -> bytes:
        if not self._packed:
            return self._data
        pieces: list[bytes] = []
        size = 0
        try:
            for piece in inflate_gzip(_cut(self._data)):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_CONTENT_BYTES:
                    raise problems.too_large(
                        f"the request body is unpacked larger than {MAX_CONTENT_BYTES} bytes"
                    )
        except CompressionError as error:
            raise problems.malformed(f"the request body cannot be unpacked: {error}") from error
        return b"".join(pieces)


async def _receive(request: web.Request) -> AsyncIterator[bytes]:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_chunked(_PIECE_BYTES):
                yield piece
    except TimeoutError as error:
        raise problems.malformed(
            f"the request body did not arrive within {BODY_SECONDS:.0f} seconds"
        ) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise problems.malformed("the request body did not arrive whole") from error


def _check_kind(request: web.Request, kinds: Collection[str]) -> str:
    kind = request.content_type
    if kind not in kinds and kind.partition("/")[0] + "/*" not in kinds:
        raise problems.unsupported(
            f"the Content-Type of the request body has to be {' or '.join(kinds)}"
        )
    return kind


def _check_packing(request: web.Request) -> bool:
    packing = request.headers.get("Content-Encoding", "").strip().lower()
    if packing in ("", "identity"):
        return False
    if packing in _GZIP_NAMES:
        return True
    # RFC 9110, section 15.5.16: the answer names what would have been taken.
    raise problems.unsupported(
        "the Content-Encoding of the request body has to be gzip or none",
        {"Accept-Encoding": "gzip, identity"},
    )


def _too_much_at_once() -> problems.Problem:
    return problems.unavailable("too much is being sent at once")


def _body_too_large() -> problems.Problem:
    return problems.too_large(f"the request body is larger than {MAX_BODY_BYTES} bytes")


def _cut(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _PIECE_BYTES):
        yield data[start : start + _PIECE_BYTES]
