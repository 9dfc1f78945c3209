"""Gauges of the notifications that wait for delivery, over the outboxes of all webhooks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from indexing.clocks import Clock
from indexing.errors import StoreError
from indexing.store.notifications import NotificationStore
from service.metrics.store_gauges import (
    KEPT_SECONDS,
    READ_SECONDS,
    StoreGauges,
    keep_within_share,
)


class OutboxGauges(StoreGauges):
    """Gauges that a scrape reads from the store; they are missing if it cannot be read in time."""

    def __init__(self, store: NotificationStore, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._counts: tuple[int, datetime | None] | None = None

    async def _read(self) -> float:
        began = time.monotonic()
        counts, kept = None, KEPT_SECONDS
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                counts = await self._count()
                # It reads the outbox of each webhook with waiting notifications.
                kept = keep_within_share(began, KEPT_SECONDS)
        self._counts = counts
        return kept

    async def _count(self) -> tuple[int, datetime | None]:
        """Return the number of waiting notifications and the time of the oldest."""
        found = [await self._store.count_outbox(each) for each in await self._store.find_waiting()]
        times = [count.oldest_at for count in found if count.oldest_at is not None]
        return sum(count.waiting for count in found), min(times, default=None)

    def collect(self) -> Iterator[Metric]:
        if self._counts is None:
            return
        waiting, oldest_at = self._counts
        age = 0.0 if oldest_at is None else (self._clock() - oldest_at).total_seconds()
        yield GaugeMetricFamily(
            "mergewatch_outbox_notifications",
            "Notifications that wait for delivery to a webhook.",
            value=waiting,
        )
        yield GaugeMetricFamily(
            "mergewatch_outbox_oldest_seconds",
            "Age of the oldest notification that waits for delivery; 0 if none waits.",
            value=max(0.0, age),
        )
