"""The rate limit of each principal, and its response headers. Off unless the operator sets one.

The counters are in `service/middleware/rate_counters.py`. Every process loads this module, so it
does not load the library that counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse

from service.http import problems
from service.middleware.layer import Handler

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.strategies import RateLimiter


# The fields of draft-ietf-httpapi-ratelimit-headers-10: structured fields, each with one policy.
# https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10
POLICY_HEADER: Final = "RateLimit-Policy"
LIMIT_HEADER: Final = "RateLimit"
_POLICY: Final = '"credential"'


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many requests of its quota a principal has left in the current window.

    The length of the `window`, and the `seconds` that are left of it, are in seconds.
    """

    quota: int
    window: int
    left: int
    seconds: int

    @property
    def headers(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The two header fields that report it."""
        return (
            (POLICY_HEADER, f"{_POLICY};q={self.quota};w={self.window}"),
            (LIMIT_HEADER, f"{_POLICY};r={self.left};t={self.seconds}"),
        )


ALLOWANCE: Final = web.RequestKey("allowance", Allowance)


class RateLimit:
    """A limit, such as `600/minute`, and its counters."""

    def __init__(self, item: RateLimitItem, limiter: RateLimiter) -> None:
        self._item = item
        self._limiter = limiter

    def wrap(self, handler: Handler) -> Handler:
        """Wrap the handler: report in each response what the principal has left, if known."""

        async def answer(request: BaseRequest) -> StreamResponse:
            response = await handler(request)
            allowance = request.get(ALLOWANCE)
            if allowance is not None:
                response.headers.update(allowance.headers)
            return response

        return answer

    async def spend(self, request: BaseRequest, principal: str) -> None:
        """Count a request of that principal, and set on the request what is left.

        Raises:
            Problem: 429 if nothing is left.
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
