"""Prepares the counts of days of the event log: one process of all replicas does it.

Reads are exact without it, but they would count all events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from typing import Final

from indexing.clocks import Clock, utc_now
from indexing.errors import MergewatchError
from indexing.store.interface import Store
from service.leases import ProcessLease

LEASE: Final = "event-counts"
LEASE_FOR: Final = timedelta(minutes=10)
# Not each minute: over one SQLite file, each write of the lease empties the caches of the other
# processes.
_RENEWED_EVERY: Final = LEASE_FOR / 2
# The pause between two refreshes. After a long refresh, the pause is `_PAUSE_FACTOR` times as long
# as that took, so that the cluster has time for other work.
PAUSE_SECONDS: Final = 60.0
_PAUSE_FACTOR: Final = 10
RELEASE_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class EventCounting:
    """Refreshes the counts of events while this process holds the lease."""

    def __init__(self, store: Store, *, clock: Clock = utc_now) -> None:
        self._store = store
        self._clock = clock
        self._lease = ProcessLease(
            store, LEASE, length=LEASE_FOR, renewed_every=_RENEWED_EVERY, clock=clock
        )

    async def run(self) -> None:
        """Refresh the counts until cancelled; then another process may do it at once."""
        try:
            while True:
                began = time.monotonic()
                try:
                    await self.refresh()
                except (MergewatchError, OSError) as error:
                    _log.warning("events cannot be counted", extra={"reason": str(error)})
                except Exception:  # noqa: BLE001 - a process has to go on counting
                    _log.exception("unhandled error in the counting of events")
                took = time.monotonic() - began
                await asyncio.sleep(max(PAUSE_SECONDS, _PAUSE_FACTOR * took))
        finally:
            await self._lease.release(RELEASE_SECONDS)

    async def refresh(self) -> None:
        """Refresh the counts, unless another process holds the lease."""
        if await self._lease.hold():
            days = await self._store.refresh_event_counts(self._clock(), self._lease.hold)
            if days:
                _log.info("days of the event log counted", extra={"days": days})
