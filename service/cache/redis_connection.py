"""The one connection of a process to Redis. Any failure is a cache miss.

All look-ups of one iteration of the event loop go out as one MGET; those that arrive meanwhile go
out as the next one. No look-up takes longer than `LIMIT_SECONDS`, and none waits for a new
connection: without a connection, every look-up is a miss. A connection that failed in any way is
closed. A server that refuses a command has failed too: it may have become a replica, and a new
connection may find the new primary.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.cache.redis_connector import (
    FULL,
    LIMIT_SECONDS,
    Command,
    RedisClient,
    RedisConnector,
    TimeLimit,
)
from service.cache.redis_failures import Reason, explain, find_reason, is_refusal

# Exponential back-off: how long to wait after two failures in a row, and at most.
FIRST_BACKOFF_SECONDS: Final = 0.2
MAX_BACKOFF_SECONDS: Final = 2.0

# After this long without a failure, the next one is logged as a warning again, and a Redis that was
# full is said to take values again. A Redis that is almost full takes some and refuses others: each
# change would be a line.
WARN_AGAIN_SECONDS: Final = 60.0

# The most that one exchange contains: as much as fits into the time limit.
MAX_KEYS: Final = 500
MAX_WRITES: Final = 50
# The look-ups of an exchange wait for its writes. A larger write is the only one.
MAX_WRITTEN_BYTES: Final = 256 * 1024
# More waiting writes are dropped: they only fill the cache.
MAX_WAITING_WRITES: Final = 1_000
MAX_WAITING_BYTES: Final = 16 * 1024 * 1024

Keys = tuple[bytes, ...]
Values = tuple[bytes | None, ...]
Replies = list[Any]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Request:
    """A request that several waiters share; cancelling one leaves the rest."""

    requested_at: float
    waiters: list[asyncio.Future[Any]]

    def resolve(self, outcome: object) -> None:
        for waiter in self.waiters:
            # The waiter may have been cancelled.
            if not waiter.done():
                waiter.set_result(outcome)


class RedisConnection:
    """A connection for one event loop. Its URL appears in no message and no `repr`."""

    def __init__(self, url: str, probe_key: bytes = b"mergewatch:probe") -> None:
        """`probe_key` is the prefix of the keys that each new connection is tested with."""
        self._connector = RedisConnector(url, probe_key)
        self._client: RedisClient | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._closed = False
        self._reason: Reason | None = None
        self._is_full = False
        self._counts: Counter[Reason] = Counter()
        self._warned: set[Reason] = set()
        self._failed_at = 0.0
        # In the order of arrival; look-ups of the same keys share one entry.
        self._gets: dict[Keys, _Request] = {}
        self._batches: deque[tuple[Sequence[Command], _Request]] = deque()
        self._writes: deque[tuple[Command, int]] = deque()
        self._waiting_bytes = 0
        self._wanted = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._observe: Callable[[float], None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether values can be read and written."""
        return self._client is not None and not self._is_full

    @property
    def is_refused(self) -> bool:
        """Whether a server answers but refuses what the cache needs: waiting does not help."""
        return self._client is None and self._reason is not None and is_refusal(self._reason)

    @property
    def failures(self) -> Mapping[Reason, int]:
        """How often values could not be read or written, by reason."""
        return self._counts

    def time_exchanges(self, observe: Callable[[float], None]) -> None:
        """Call `observe` with the seconds of each exchange, from first look-up to replies."""
        self._observe = observe

    async def open(self) -> None:
        """Start, and try to connect; a Redis that cannot be reached is tried again later."""
        self._worker = asyncio.create_task(self._work())
        await self.connect()

    async def close(self) -> None:
        """Cancel what is in progress and close the connection."""
        self._closed = True
        for task in (self._worker, self._connecting):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._drop_connection()
        self._refuse_all()

    async def connect(self) -> bool:
        """Try once to connect, even during back-off; return whether there is a connection."""
        if self._client is None and not self._closed:
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect())
            await asyncio.wait([self._connecting])
        return self._client is not None

    async def get(self, keys: Keys) -> Values | None:
        """Return the values of these keys; `None` if Redis does not reply in time."""
        if self._client is None:
            self._reconnect()
            return None
        waiter: asyncio.Future[Values | None] = asyncio.get_running_loop().create_future()
        request = self._gets.get(keys)
        if request is None:
            self._gets[keys] = _Request(time.monotonic(), [waiter])
            self._wanted.set()
        else:
            request.waiters.append(waiter)
        return await waiter

    async def execute(self, commands: Sequence[Command]) -> Replies | None:
        """Return the replies to these commands, `None` for a refused one; `None` if none came."""
        if self._client is None:
            self._reconnect()
            return None
        waiter: asyncio.Future[Replies | None] = asyncio.get_running_loop().create_future()
        self._batches.append((commands, _Request(time.monotonic(), [waiter])))
        self._wanted.set()
        return await waiter

    def write(self, command: Command, size: int) -> None:
        """Queue a command of about `size` bytes if there is room; do not wait for its reply."""
        if (
            self._client is not None
            and len(self._writes) < MAX_WAITING_WRITES
            and self._waiting_bytes + size <= MAX_WAITING_BYTES
        ):
            self._writes.append((command, size))
            self._waiting_bytes += size
            self._wanted.set()

    async def _work(self) -> None:
        while True:
            # This wakes an iteration after the first look-up: all look-ups of that one are queued.
            await self._wanted.wait()
            self._wanted.clear()
            while self._gets or self._batches or self._writes:
                try:
                    await self._exchange()
                except Exception:  # noqa: BLE001 - without this task, all look-ups would hang
                    _log.exception("unhandled error in an exchange with redis")
                    self._refuse_all()

    async def _exchange(self) -> None:
        gets = self._take_gets()
        batches = [self._batches.popleft() for _ in range(len(self._batches))]
        commands: list[Command] = []
        room = MAX_WRITTEN_BYTES
        while self._writes and len(commands) < MAX_WRITES:
            command, size = self._writes[0]
            room -= size
            if commands and room < 0:
                break
            self._writes.popleft()
            self._waiting_bytes -= size
            commands.append(command)
        written = len(commands)
        for batch, _ in batches:
            commands += batch
        keys = list(dict.fromkeys(key for wanted in gets for key in wanted))
        if keys:
            commands.append(("MGET", *keys))
        requests = [*gets.values(), *(request for _, request in batches)]
        began = min((each.requested_at for each in requests), default=time.monotonic())
        try:
            replies = await self._converse(commands, began)
            if replies is None:
                _refuse(requests)
                self._refuse_all()
                return
            values = replies.pop() if keys else None
            remaining = iter(replies[written:])
            for batch, waiting in batches:
                waiting.resolve([next(remaining) for _ in batch])
            found = dict(zip(keys, values, strict=True)) if isinstance(values, list) else None
            for wanted, waiting in gets.items():
                waiting.resolve(None if found is None else tuple([found[key] for key in wanted]))
        except BaseException:
            _refuse(requests)
            raise

    def _take_gets(self) -> dict[Keys, _Request]:
        if sum(map(len, self._gets)) <= MAX_KEYS:
            taken, self._gets = self._gets, {}
            return taken
        taken = {}
        count = 0
        for keys in tuple(self._gets):
            count += len(keys)
            if taken and count > MAX_KEYS:
                break
            taken[keys] = self._gets.pop(keys)
        return taken

    async def _converse(self, commands: Sequence[Command], began: float) -> Replies | None:
        """Send the commands, return the replies; on failure, disconnect and return `None`."""
        client = self._client
        if client is None:
            return None
        try:
            async with TimeLimit(LIMIT_SECONDS - (time.monotonic() - began)):
                replies = await client.execute(commands)
        except Exception as error:  # noqa: BLE001 - any failure is a cache miss
            await self._fail(error)
            return None
        if self._observe is not None:
            self._observe(time.monotonic() - began)
        self._failures = 0
        taken = self._note_full(replies)
        if self._warned and time.monotonic() - self._failed_at > WARN_AGAIN_SECONDS:
            self._end_warnings()
        return taken

    def _reconnect(self) -> None:
        """Try to connect in the background, unless the back-off forbids it."""
        if self._connecting is None and not self._closed and time.monotonic() >= self._retry_at:
            self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            client, replies = await self._connector.connect()
        except Exception as error:  # noqa: BLE001 - any failure means no connection
            self._note_failure(error)
        else:
            self._client = client
            self._reason = None
            _log.info("redis connected")
            self._note_full(replies)
        finally:
            self._connecting = None

    async def _fail(self, error: Exception) -> None:
        await self._drop_connection()
        if self._connector.follow(error):
            # The slot has moved to another node: that is no failure of the cluster.
            self._counts[Reason.MOVED] += 1
        else:
            self._note_failure(error)
        self._reconnect()

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        self._reason = find_reason(error)
        self._warn(self._reason, failures=self._failures)
        if self._failures > 1:
            backoff = min(
                FIRST_BACKOFF_SECONDS * 2 ** min(self._failures - 2, 10), MAX_BACKOFF_SECONDS
            )
            # Jitter: processes that lost Redis together do not reconnect together.
            self._retry_at = time.monotonic() + backoff * (1 + secrets.randbelow(100) / 400)

    def _note_full(self, replies: Replies) -> Replies:
        """Note whether Redis is full. The reply to a write that it refused becomes `None`.

        The connection stays open: a full Redis still serves reads and deletions.
        """
        if FULL in replies:
            self._is_full = True
            self._warn(Reason.OOM)
            return [None if reply is FULL else reply for reply in replies]
        if self._is_full and b"OK" in replies:
            self._is_full = False
        return replies

    def _warn(self, reason: Reason, **about: int) -> None:
        """Count a failure, and log it with the fields `about`, as a warning the first time."""
        self._counts[reason] += 1
        self._failed_at = time.monotonic()
        level = logging.DEBUG if reason in self._warned else logging.WARNING
        self._warned.add(reason)
        # Not the text of the error: it may contain parts of the URL.
        fields = {"reason": reason.value, **about}
        _log.log(level, explain(reason, self._connector.address), extra=fields)

    def _end_warnings(self) -> None:
        """Log the next failure as a warning again."""
        if self._is_full:
            # Nothing was written meanwhile.
            self._warned &= {Reason.OOM}
            return
        if Reason.OOM in self._warned:
            _log.info("redis takes values again")
        self._warned.clear()

    async def _drop_connection(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _refuse_all(self) -> None:
        _refuse((*self._gets.values(), *(request for _, request in self._batches)))
        self._gets.clear()
        self._batches.clear()
        self._writes.clear()
        self._waiting_bytes = 0


def _refuse(requests: Iterable[_Request]) -> None:
    for each in requests:
        each.resolve(None)
