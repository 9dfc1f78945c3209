"""The rate limit of each principal: counted in Redis where there is one, else in each process.

Off unless the operator sets a limit. While Redis does not answer, each process counts for itself.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse
from limits import RateLimitItem, parse
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter

from service.cache.backend import CacheBackend
from service.cache.lru import Lru
from service.http import problems

Handler = Callable[[BaseRequest], Awaitable[StreamResponse]]

# The fields of draft-ietf-httpapi-ratelimit-headers-10: structured fields, each with one policy.
# https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10
POLICY_HEADER: Final = "RateLimit-Policy"
LIMIT_HEADER: Final = "RateLimit"
_POLICY: Final = '"credential"'

# About 15,000 principals.
_COUNTS_MAX_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """The requests that a principal has left in the current window, of its quota."""

    quota: int
    window: int
    left: int
    seconds: int

    @property
    def headers(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The two header fields that say so."""
        return (
            (POLICY_HEADER, f"{_POLICY};q={self.quota};w={self.window}"),
            (LIMIT_HEADER, f"{_POLICY};r={self.left};t={self.seconds}"),
        )


ALLOWANCE: Final = web.RequestKey("allowance", Allowance)


class RateLimit:
    """The counts of one limit, such as `600/minute`."""

    def __init__(self, limit: str, backend: CacheBackend) -> None:
        self._item: RateLimitItem = parse(limit)
        self._limiter = FixedWindowRateLimiter(_Counts(backend))

    def wrap(self, handler: Handler) -> Handler:
        """Wrap the handler: each response says what the principal has left, if that was counted."""

        async def answer(request: BaseRequest) -> StreamResponse:
            response = await handler(request)
            allowance = request.get(ALLOWANCE)
            if allowance is not None:
                response.headers.update(allowance.headers)
            return response

        return answer

    async def spend(self, request: BaseRequest, principal: str) -> None:
        """Count a request of that principal, and note on the request what is left.

        Raises:
            Problem: 429 when there is nothing left.
        """
        allowed = await self._limiter.hit(self._item, principal)
        allowance = await self._note(request, principal)
        if not allowed:
            raise problems.too_many(allowance.seconds)

    async def require_some(self, request: BaseRequest, principal: str) -> None:
        """Refuse a principal that has nothing left, as far as this process knows; count nothing.

        Raises:
            Problem: 429.
        """
        if not await self._limiter.test(self._item, principal):
            raise problems.too_many((await self._note(request, principal)).seconds)

    async def _note(self, request: BaseRequest, principal: str) -> Allowance:
        stats = await self._limiter.get_window_stats(self._item, principal)
        window = self._item.get_expiry()
        seconds = min(window, max(1, round(stats.reset_time - time.time())))
        allowance = Allowance(self._item.amount, window, stats.remaining, seconds)
        request[ALLOWANCE] = allowance
        return allowance


RATE_LIMIT: Final = web.AppKey("rate_limit", RateLimit)


class _Counts(Storage):
    """Counters that processes share, and counters of this process while they cannot.

    When there are too many principals, those that asked longest ago start again at zero.
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
            # The caller asks next what is left: a second request to Redis is not needed for that.
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
    # On the monotonic clock.
    ends: float
