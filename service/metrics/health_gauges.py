"""Gauges of the tests in the named repositories by health, and of tests that wait for a refresh."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from indexing.errors import StoreError
from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.metrics.store_gauges import StoreGauges, keep_within_share

# How long numbers are kept at least.
KEPT_SECONDS: Final = 60.0
# The share of the time that counts may take while one of them fails. The gauges are missing until
# they succeed, so they are repeated sooner than others.
FAILING_SHARE: Final = 0.05
# How long a scrape waits for a count; a later scrape has the numbers.
WAIT_SECONDS: Final = 2.0
# The timeout of one count.
COUNT_SECONDS: Final = 10.0


class HealthGauges(StoreGauges):
    """Gauges that a scrape reads from the store; what cannot be counted is left out."""

    def __init__(self, reader: Reader, repositories: Sequence[RepositoryName]) -> None:
        super().__init__(WAIT_SECONDS)
        self._reader = reader
        self._repositories = list(repositories)
        self._tests: Mapping[str, Mapping[HealthStatus, int]] = {}
        self._stale: int | None = None

    async def _read(self) -> float:
        began = time.monotonic()
        tests: dict[str, Mapping[HealthStatus, int]] = {}
        stale: int | None = None
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(COUNT_SECONDS):
                stale = await self._reader.count_stale_tests()
        for name in self._repositories:
            try:
                with suppress(StoreError):
                    async with asyncio.timeout(COUNT_SECONDS):
                        tests[str(name)] = await self._reader.count_tests(name)
            except TimeoutError:
                # More counts would only add to the load of the store. The others come first next
                # time, in case it is only this repository that takes so long.
                self._repositories.remove(name)
                self._repositories.append(name)
                break
        # Replaced, not changed: a thread may be reading the old numbers.
        self._tests, self._stale = tests, stale
        is_complete = stale is not None and tests.keys() == {
            str(name) for name in self._repositories
        }
        # Counting scans all tests.
        share = None if is_complete else FAILING_SHARE
        return keep_within_share(began, KEPT_SECONDS, share)

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "mergewatch_tests", "Known tests by health.", labels=("repository", "health_status")
        )
        for name, counts in self._tests.items():
            for health, count in counts.items():
                family.add_metric((name, health.value), count)
        yield family
        if self._stale is not None:
            yield GaugeMetricFamily(
                "mergewatch_stale_tests",
                "Tests whose new results wait to be judged.",
                value=self._stale,
            )
