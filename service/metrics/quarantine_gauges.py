"""Gauges of the quarantined tests in the repositories that the operator names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from indexing.clocks import Clock
from indexing.errors import StoreError
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.metrics.store_gauges import KEPT_SECONDS, READ_SECONDS, StoreGauges


class QuarantineGauges(StoreGauges):
    """Gauges that a scrape reads from the store; a repository that cannot be read is left out."""

    def __init__(
        self, reader: Reader, repositories: Sequence[RepositoryName], clock: Clock
    ) -> None:
        super().__init__()
        self._reader = reader
        self._repositories = repositories
        self._clock = clock
        self._counts: dict[str, int] = {}

    async def _read(self) -> float:
        # Replaced, not changed: a thread may be reading the old counts.
        counts: dict[str, int] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                for name in self._repositories:
                    with suppress(StoreError):
                        counts[str(name)] = await self._count(name)
        self._counts = counts
        return KEPT_SECONDS

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
