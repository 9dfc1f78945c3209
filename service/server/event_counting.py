"""Prepares the counts of days of the event log: one process of all replicas does it.

Reads are exact without it, but they would count all events.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from indexing.errors import MergewatchError
from indexing.store.interface import Store
from indexing.timestamps import lasts
from service.context import Clock, utc_now

LEASE: Final = "event-counts"
LEASE_FOR: Final = timedelta(minutes=10)
# Not each minute: over one SQLite file, each write of the lease empties the caches of the other
# processes.
_RENEWED_AFTER: Final = LEASE_FOR / 2
# The pause between two refreshes. After a long one it is so many times as long as that took, so
# that the cluster has time for other work.
PAUSE_SECONDS: Final = 60.0
_PAUSE_FACTOR: Final = 10
RELEASE_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class EventCounting:
    """Refreshes the counts of events while this process holds the lease."""

    def __init__(self, store: Store, *, clock: Clock = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._owner = uuid.uuid4().hex
        # When this process last got or renewed the lease; `None` if it does not hold it.
        self._renewed_at: datetime | None = None

    async def run(self) -> None:
        """Refresh the counts until cancelled; then another process may do it at once."""
        try:
            while True:
                began = time.monotonic()
                try:
                    await self.refresh()
                except (MergewatchError, OSError) as error:
                    _log.warning("events cannot be counted", extra={"reason": str(error)})
                took = time.monotonic() - began
                await asyncio.sleep(max(PAUSE_SECONDS, _PAUSE_FACTOR * took))
        finally:
            with suppress(MergewatchError, OSError, TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._store.release_lease(LEASE, self._owner)

    async def refresh(self) -> None:
        """Refresh the counts, unless another process holds the lease."""
        if await self._keep_lease():
            days = await self._store.refresh_event_counts(self._clock(), self._keep_lease)
            if days:
                _log.info("days of the event log counted", extra={"days": days})

    async def _keep_lease(self) -> bool:
        """Get the lease, or renew it if it is time to; return whether this process holds it."""
        now, renewed_at = self._clock(), self._renewed_at
        if renewed_at is None or not lasts(renewed_at, _RENEWED_AFTER, now):
            held = await self._store.hold_lease(LEASE, self._owner, now, now + LEASE_FOR)
            self._renewed_at = now if held else None
        return self._renewed_at is not None
