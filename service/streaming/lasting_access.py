"""Checks access again while a response is being sent, which may outlive a key or a session."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from indexing.errors import StoreError
from service.http.problems import Problem

# How often access is checked. With the lifetime of a cached key, a revoked one ends its streams
# within 60 seconds, even if its invalidation is lost.
CHECK_SECONDS: Final = 5.0
# How long a response continues while access cannot be checked.
UNCHECKED_SECONDS: Final = 50.0


class LastingAccess:
    """The access of one request, for as long as its response takes."""

    def __init__(self, check: Callable[[], Awaitable[object]]) -> None:
        """`check` raises a `Problem` if the request would be refused now."""
        self._check = check
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
            await self._check()
        except Problem as problem:
            if problem.status < 500:
                return False
        except StoreError:
            pass
        else:
            self._checked_at = now
        return now - self._checked_at < UNCHECKED_SECONDS
