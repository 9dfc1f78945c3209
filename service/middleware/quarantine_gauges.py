"""Gauges of the quarantined tests in the repositories that the operator names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from indexing.errors import StoreError
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery
from indexing.names import RepositoryName
from indexing.store.interface import Reader

# How long a count is reused: any client may scrape as often as it likes.
KEPT_SECONDS: Final = 30.0
# Prometheus gives up a scrape after ten seconds.
READ_SECONDS: Final = 5.0


class QuarantineGauges(Collector):
    """Gauges that a scrape reads from the store; a repository that cannot be read is left out."""

    def __init__(
        self, reader: Reader, repositories: Sequence[RepositoryName], clock: Callable[[], datetime]
    ) -> None:
        self._reader = reader
        self._repositories = repositories
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the store, unless the counts are recent."""
        async with self._lock:
            if time.monotonic() - self._read_at < KEPT_SECONDS:
                return
            # Replaced, not changed: a thread may be reading the old counts.
            counts: dict[str, int] = {}
            with suppress(TimeoutError):
                async with asyncio.timeout(READ_SECONDS):
                    for name in self._repositories:
                        with suppress(StoreError):
                            counts[str(name)] = await self._count(name)
            self._counts = counts
            self._read_at = time.monotonic()

    async def _count(self, name: RepositoryName) -> int:
        query = QuarantineQuery(name, self._clock())
        page = await self._reader.list_quarantines(query, Anchor(), None)
        return len({row.test_name for row in page.rows})

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "mergewatch_quarantined_tests", "Tests in quarantine.", labels=("repository",)
        )
        for name, count in self._counts.items():
            family.add_metric((name,), count)
        yield family
