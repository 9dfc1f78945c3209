"""Leases in the store: the process that holds one does the work that it protects."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from datetime import datetime, timedelta

from indexing.clocks import Clock
from indexing.errors import MergewatchError
from indexing.store.notifications import NotificationStore
from indexing.timestamps import lasts


class ProcessLease:
    """A lease that this process takes, renews and releases; others may hold it meanwhile."""

    def __init__(
        self,
        store: NotificationStore,
        name: str,
        *,
        length: timedelta,
        renewed_every: timedelta,
        clock: Clock,
    ) -> None:
        self._store = store
        self._name = name
        self._length = length
        self._renewed_every = renewed_every
        self._clock = clock
        self._owner = uuid.uuid4().hex
        # When this process last got or renewed it; `None` if it does not hold it.
        self._held_at: datetime | None = None
        # Whether it was ever asked for: a call that was cancelled may have taken it.
        self._may_hold = False
        self._renewing = asyncio.Lock()

    async def hold(self) -> bool:
        """Take the lease, or renew it if it is time to; return whether this process holds it."""
        # Two renewals at once would conflict, as if another process held the lease.
        async with self._renewing:
            now = self._clock()
            if not lasts(self._held_at, self._renewed_every, now):
                self._may_hold = True
                until = now + self._length
                held = await self._store.hold_lease(self._name, self._owner, now, until)
                self._held_at = now if held else None
            return self._held_at is not None

    async def release(self, seconds: float) -> None:
        """Let another process have it at once; give up after so many seconds.

        The lease ends by itself if the store is down.
        """
        if self._may_hold:
            with suppress(MergewatchError, OSError, TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._store.release_lease(self._name, self._owner)
