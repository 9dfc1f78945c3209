"""Checks access again while a response is being sent, which may outlive a key or a session."""

from __future__ import annotations

import time
from typing import Final

from aiohttp import web

from indexing.errors import StoreError
from service.context import ACCESS_CHECK, AccessCheck
from service.http.problems import Problem
from service.middleware.access import authenticate, authorize
from service.routes import Route

# How often access is checked. With the lifetime of a cached key, a revoked one ends its streams
# within 60 seconds, even if its invalidation is lost.
CHECK_SECONDS: Final = 5.0
# How long a response continues while access cannot be checked.
UNCHECKED_SECONDS: Final = 50.0


class LastingAccess:
    """The access of one request, for as long as its response takes."""

    def __init__(self, request: web.Request, route: Route) -> None:
        self._request = request
        self._check = request.get(ACCESS_CHECK) or _check_credential(route)
        self._checked_at = self._tried_at = time.monotonic()

    @property
    def seconds_left(self) -> float:
        """The time until access is checked again."""
        return max(0.0, CHECK_SECONDS - (time.monotonic() - self._tried_at))

    async def lasts(self) -> bool:
        """Whether the request would still be allowed; checked every `CHECK_SECONDS`."""
        now = time.monotonic()
        if now - self._tried_at < CHECK_SECONDS:
            return True
        self._tried_at = now
        try:
            await self._check.run(self._request)
        except Problem as problem:
            if problem.status < 500:
                return False
            return now - self._checked_at < UNCHECKED_SECONDS
        except StoreError:
            return now - self._checked_at < UNCHECKED_SECONDS
        self._checked_at = now
        return True


def _check_credential(route: Route) -> AccessCheck:
    """Repeat the checks of the request; it raises a `Problem` if it would be refused now."""
    return AccessCheck(authenticate(route, counted=False)(authorize(route)(_allow)))


async def _allow(_request: web.Request) -> web.StreamResponse:
    return web.Response()
