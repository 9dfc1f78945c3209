"""The counters of the rate limit: in Redis if it is configured, else in each process.

While Redis does not answer, each process counts for itself.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from limits import parse
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter

from indexing.lru import Lru
from service.cache.backend import CacheBackend
from service.middleware.rate_limit import RateLimit

# About 15,000 principals.
_COUNTS_MAX_BYTES: Final = 32 * 1024 * 1024


def open_rate_limit(limit: str, backend: CacheBackend) -> RateLimit:
    """Open a limit such as `600/minute`."""
    return RateLimit(parse(limit), FixedWindowRateLimiter(_Counts(backend)))


class _Counts(Storage):
    """The counters that processes share, and this process's own for when Redis fails.

    When there are too many principals, the least recently active ones start again at zero.
    """

    STORAGE_SCHEME = None

    def __init__(self, backend: CacheBackend) -> None:
        super().__init__()
        self._backend = backend
        self._shared: Lru[_Count] = Lru(_COUNTS_MAX_BYTES)
        self._own: Lru[_Count] = Lru(_COUNTS_MAX_BYTES)

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        return ()

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        found = await self._backend.count(key, expiry, amount)
        now = time.monotonic()
        if found is not None:
            # The caller reads the count next; the copy saves a second request to Redis.
            counted = _Count(found[0], now + found[1])
            self._shared.keep(key, counted, len(key), counted.ends)
            return counted.number
        self._shared.drop(key)
        before = self._own.find(key) or _Count(0, now + expiry)
        counted = _Count(before.number + amount, before.ends)
        self._own.keep(key, counted, len(key), counted.ends)
        return counted.number

    async def get(self, key: str) -> int:
        counted = self._find(key)
        return 0 if counted is None else counted.number

    async def get_expiry(self, key: str) -> float:
        counted = self._find(key)
        return time.time() + (0 if counted is None else counted.ends - time.monotonic())

    async def check(self) -> bool:
        return True

    async def reset(self) -> None:
        self._shared = Lru(_COUNTS_MAX_BYTES)
        self._own = Lru(_COUNTS_MAX_BYTES)

    async def clear(self, key: str) -> None:
        self._shared.drop(key)
        self._own.drop(key)

    def _find(self, key: str) -> _Count | None:
        return self._shared.find(key) or self._own.find(key)


class _Count(NamedTuple):
    number: int
    # When the counter expires, on the monotonic clock.
    ends: float
