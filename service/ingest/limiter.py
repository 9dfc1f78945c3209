"""The limits of request bodies: their media types, their size, and how many at a time.

Their content is not read here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Hashable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiohttp import web

from indexing.fairness import FairSemaphore, acquire_within, current_tenant
from indexing.ingest.compression import GZIP_MAGIC, CompressionError, inflate_small_gzip
from service.http import problems
from service.http.sender import SENDER
from service.ingest.body_workers.pool import WorkerPool
from service.ingest.request_body import QUICK_BODY_BYTES, Body, LargeBody, SmallBody

# The size as sent. An SDK's batch, 512 spans with a long stack trace each, is half of it unpacked.
MAX_BODY_BYTES: Final = 16 * 1024 * 1024

# The size as sent and unpacked. A small body never waits behind a large one of another sender.
SMALL_BODY_BYTES: Final = 64 * 1024

# The size of all bodies that one process holds, over all connections.
MAX_HELD_BYTES: Final = 128 * 1024 * 1024
# The part of that for one sender, so that there is room for others.
MAX_HELD_BYTES_PER_SENDER: Final = 64 * 1024 * 1024
# The part of that which is reserved for small bodies.
HELD_FOR_SMALL_BYTES: Final = 16 * 1024 * 1024
# A body of the largest size takes this long at two megabits a second. Without this limit, senders
# that stopped would hold their memory for ever.
BODY_SECONDS: Final = 60.0

# Slots for bodies that are being read and written; one sender may have half of them. A large
# body takes several times its size in a worker process, and there are two cores. Small ones mostly
# wait for the store, and a cluster writes all that wait together in one request.
LARGE_AT_ONCE: Final = 2
LARGE_AT_ONCE_PER_SENDER: Final = 1
SMALL_AT_ONCE: Final = 64
SMALL_AT_ONCE_PER_SENDER: Final = 32
# How long a body that has arrived may wait for a slot: span exporters give up after ten seconds.
SLOT_SECONDS: Final = 5.0

# Large bodies have a lower priority than everything else on the machine.
LARGE_NICENESS: Final = 5

_GZIP_NAMES: Final = frozenset({"gzip", "x-gzip"})
_PIECE_BYTES: Final = 64 * 1024


class RequestBodyLimiter:
    """Applies the limits in one process; a request that finds no room is refused with a 503."""

    def __init__(self) -> None:
        self._held: Counter[Hashable] = Counter()
        self._small_slots = FairSemaphore(SMALL_AT_ONCE, SMALL_AT_ONCE_PER_SENDER)
        self._large_slots = FairSemaphore(LARGE_AT_ONCE, LARGE_AT_ONCE_PER_SENDER)
        # Reading a small body blocks the event loop for a moment. Bodies are read one after the
        # other, so that one iteration of the loop is blocked by one body at most.
        self._quick_reading = FairSemaphore(1)
        self._small_reading = FairSemaphore(1)
        self._small_workers = WorkerPool(1, niceness=0)
        self._large_workers = WorkerPool(LARGE_AT_ONCE, LARGE_NICENESS)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process ids of the workers."""
        return self._small_workers.pids + self._large_workers.pids

    async def start(self) -> None:
        """Start all worker processes; otherwise each is started when it is first needed."""
        await self._small_workers.start()
        await self._large_workers.start()

    async def close(self) -> None:
        """End all worker processes."""
        await self._small_workers.close()
        await self._large_workers.close()

    @asynccontextmanager
    async def receive(
        self,
        request: web.Request,
        media_types: Collection[str],
        max_bytes: int = MAX_BODY_BYTES,
        seconds: float | None = None,
    ) -> AsyncIterator[Body]:
        """Read the body of a request that has one of `media_types`, which may end in `/*`.

        It has to arrive within `seconds` (default: `BODY_SECONDS`). `max_bytes` limits the body as
        sent. If it is at most `SMALL_BODY_BYTES`, the unpacked body may not be larger than that
        either.

        The body counts as held, and keeps its slot, until the context is left. Calls to the store
        meanwhile are queued fairly among all tenants.

        Raises:
            Problem: 415 for its media type or encoding, 413 for its size, 400 if it does not
                arrive or if a body that has to be small cannot be unpacked, 503 if too much is held
                already, or if the wait for a slot is too long.
        """
        sender = request[SENDER]
        media_type = _check_media_type(request, media_types)
        packed = _check_packing(request)
        _check_transfer(request)
        if (request.content_length or 0) > max_bytes:
            raise _body_too_large(max_bytes)
        pieces: list[bytes] = []
        held = 0
        try:
            async for piece in _receive(request, seconds or BODY_SECONDS):
                pieces.append(piece)
                held += len(piece)
                self._held[sender] += len(piece)
                if held > max_bytes:
                    raise _body_too_large(max_bytes)
                self._check_held(sender, held)
            if not packed:
                _check_unpacked(pieces)
            content = _find_small_content(pieces, held, max_bytes, packed=packed)
            slots = self._large_slots if content is None else self._small_slots
            async with AsyncExitStack() as taken:
                try:
                    slot = acquire_within(SLOT_SECONDS, slots.slot(sender))
                    await taken.enter_async_context(slot)
                except TimeoutError as error:
                    raise too_much_at_once() from error
                current_tenant.set(sender)
                if content is None:
                    yield LargeBody(media_type, pieces, self._large_workers, packed=packed)
                else:
                    pieces.clear()
                    is_quick = len(content) <= QUICK_BODY_BYTES
                    reading = self._quick_reading if is_quick else self._small_reading
                    yield SmallBody(media_type, content, self._small_workers, reading.slot(sender))
        finally:
            self._held[sender] -= held
            if not self._held[sender]:
                del self._held[sender]

    def _check_held(self, sender: Hashable, held: int) -> None:
        """Refuse a body of which `held` bytes have arrived, if too much is held already."""
        limit = MAX_HELD_BYTES
        if held > SMALL_BODY_BYTES:
            limit -= HELD_FOR_SMALL_BYTES
        if self._held[sender] > MAX_HELD_BYTES_PER_SENDER or self._held.total() > limit:
            raise too_much_at_once()


LIMITER: Final = web.AppKey("request_body_limiter", RequestBodyLimiter)


def _find_small_content(
    pieces: list[bytes], size: int, max_bytes: int, *, packed: bool
) -> bytes | None:
    """Return the content of a body that is small as sent and unpacked, `None` for any other.

    Raises:
        Problem: 400 or 413 for any other, if it has to be small.
    """
    has_to_be_small = max_bytes <= SMALL_BODY_BYTES
    content = None
    if size <= SMALL_BODY_BYTES:
        sent = b"".join(pieces)
        try:
            content = inflate_small_gzip(sent, SMALL_BODY_BYTES) if packed else sent
        except CompressionError as error:
            # A worker reads several members, and what comes before a defect.
            if has_to_be_small:
                raise problems.malformed(f"the request body cannot be unpacked: {error}") from error
    if content is None and has_to_be_small:
        raise _body_too_large(max_bytes)
    return content


async def _receive(request: web.Request, seconds: float) -> AsyncIterator[bytes]:
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.content.iter_chunked(_PIECE_BYTES):
                yield piece
    except TimeoutError as error:
        raise problems.malformed(
            f"the request body did not arrive within {seconds:.0f} seconds"
        ) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise problems.malformed("the request body is incomplete") from error


def _check_media_type(request: web.Request, media_types: Collection[str]) -> str:
    media_type = request.content_type
    if media_type not in media_types and media_type.partition("/")[0] + "/*" not in media_types:
        raise problems.unsupported(
            f"the Content-Type of the request body must be {' or '.join(media_types)}"
        )
    return media_type


def _check_packing(request: web.Request) -> bool:
    packing = _join_fields(request, "Content-Encoding")
    if packing in ("", "identity"):
        return False
    if packing in _GZIP_NAMES:
        return True
    raise _wrong_encoding("the Content-Encoding of the request body must be gzip or identity")


def _check_unpacked(pieces: Sequence[bytes]) -> None:
    # Read as lines, the packed bytes would be refused one by one, in a response that succeeds. Text
    # and protobuf never begin so.
    if b"".join(pieces[: len(GZIP_MAGIC)]).startswith(GZIP_MAGIC):
        raise _wrong_encoding(
            "the request body is gzip, so its Content-Encoding must be gzip, not identity"
        )


def _wrong_encoding(detail: str) -> problems.Problem:
    # RFC 9110, section 15.5.16: the response names the encodings that are accepted.
    return problems.unsupported(detail, {"Accept-Encoding": "gzip, identity"})


def _check_transfer(request: web.Request) -> None:
    # The parser ignores all transfer codings but this one, so it would return a coded body.
    if _join_fields(request, "Transfer-Encoding") not in ("", "chunked"):
        raise problems.malformed("the Transfer-Encoding of the request must be chunked")


def _join_fields(request: web.Request, name: str) -> str:
    """Return the lower-case value of a header; several lines are one list (RFC 9110, 5.3)."""
    return ", ".join(request.headers.getall(name, ())).strip().lower()


def too_much_at_once() -> problems.Problem:
    """Return the refusal of a body while too many others are on their way."""
    return problems.unavailable("too many uploads at once, retry later")


def _body_too_large(max_bytes: int) -> problems.Problem:
    return problems.too_large(f"the request body is larger than {max_bytes} bytes")
