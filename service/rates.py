"""How often each caller may ask: counted in Redis where processes share one, else in each process.

Off unless the operator sets a limit. While Redis does not answer, each process counts for itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse
from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter

from service import problems
from service.cache.lru import Lru
from service.cache.shelf import Shelf

# The fields of draft-ietf-httpapi-ratelimit-headers-10: structured fields, each with one policy.
# https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10
POLICY_HEADER: Final = "RateLimit-Policy"
LIMIT_HEADER: Final = "RateLimit"
_POLICY: Final = '"credential"'

_COUNTS_MAX_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a caller has left: so many requests within so many seconds, of so many in a window."""

    quota: int
    window: int
    left: int
    seconds: int

    @property
    def headers(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The two fields that tell a client of it."""
        return (
            (POLICY_HEADER, f"{_POLICY};q={self.quota};w={self.window}"),
            (LIMIT_HEADER, f"{_POLICY};r={self.left};t={self.seconds}"),
        )


ALLOWANCE: Final = web.RequestKey("allowance", Allowance)


class Rates:
    """The counts of one limit, such as `600/minute`."""

    def __init__(self, limit: str, shelf: Shelf) -> None:
        self._item: RateLimitItem = parse(limit)
        self._limiter = FixedWindowRateLimiter(_Counts(shelf))

    async def spend(self, request: BaseRequest, caller: str) -> None:
        """Count a request of that caller, and note on it what is left.

        Raises:
            Problem: 429 when there is nothing left.
        """
        allowed = await self._limiter.hit(self._item, caller)
        stats = await self._limiter.get_window_stats(self._item, caller)
        window = self._item.get_expiry()
        seconds = min(window, max(1, round(stats.reset_time - time.time())))
        request[ALLOWANCE] = Allowance(self._item.amount, window, stats.remaining, seconds)
        if not allowed:
            raise problems.too_many(seconds)


def tell_allowance(request: BaseRequest, response: StreamResponse) -> None:
    """Say in the response what the caller has left, where that was counted."""
    allowance = request.get(ALLOWANCE)
    if allowance is not None:
        response.headers.update(allowance.headers)


class _Counts(MemoryStorage):
    """Counts that processes share where they can, and this process' own where they cannot."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._shelf = shelf
        self._shared: Lru[tuple[int, float]] = Lru(_COUNTS_MAX_BYTES)

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        found = await self._shelf.count(key, expiry, amount)
        if found is None:
            self._shared.drop(key)
            return await super().incr(key, expiry, amount)
        count, seconds = found
        # What is asked for next is what this caller has left: no second way to Redis for that.
        ends = time.time() + seconds
        self._shared.keep(key, (count, ends), 0, time.monotonic() + seconds)
        return count

    async def get(self, key: str) -> int:
        shared = self._shared.find(key)
        return await super().get(key) if shared is None else shared[0]

    async def get_expiry(self, key: str) -> float:
        shared = self._shared.find(key)
        return await super().get_expiry(key) if shared is None else shared[1]
