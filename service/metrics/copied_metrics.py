"""Copies a worker's own counts into metrics that every other worker can read.

On the path of a request they are plain numbers, as these are cheap to count. They are copied every
second, and before this worker itself answers a scrape.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

COPY_SECONDS: Final = 1.0
# A maximum covers this many copies, about a minute: workers do not see each other's scrapes.
MAXIMUM_OF_COPIES: Final = 60

# How the gauges of all workers become one.
_Mode: TypeAlias = Literal["livesum", "livemax", "livemin"]
_MODES: Final[Mapping[str, _Mode]] = {
    "mergewatch_waiting_requests": "livesum",
    "mergewatch_event_loop_lag_max_seconds": "livemax",
    "mergewatch_redis_usable": "livemin",
}


class CopiedMetrics:
    """Copies the samples of collectors into metrics that all workers share."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._counted: dict[tuple[str, tuple[str, ...]], float] = {}
        self._maxima: dict[str, deque[float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Copy every second until `stop` is called."""
        # First, as the disk of the files may be full for a moment.
        self._timer = asyncio.get_running_loop().call_later(COPY_SECONDS, self.start)
        self.copy()

    def stop(self) -> None:
        """Copy once more, and stop."""
        if self._timer is not None:
            self._timer.cancel()
        self.copy()

    def copy(self) -> None:
        """Copy everything now."""
        for collector in self._collectors:
            for family in collector.collect():
                for sample in family.samples:
                    if family.type == "counter":
                        self._count(family, sample)
                    else:
                        self._gauge(family).set(self._highest(family, sample.value))

    def _count(self, family: Metric, sample: Sample) -> None:
        labels = tuple(sample.labels.values())
        key = (family.name, labels)
        growth = sample.value - self._counted.get(key, 0.0)
        self._counted[key] = sample.value
        counter = self._counters.get(family.name)
        if counter is None:
            counter = self._counters[family.name] = Counter(
                family.name, family.documentation, tuple(sample.labels), registry=self._registry
            )
        (counter.labels(*labels) if labels else counter).inc(growth)

    def _gauge(self, family: Metric) -> Gauge:
        gauge = self._gauges.get(family.name)
        if gauge is None:
            gauge = self._gauges[family.name] = Gauge(
                family.name,
                family.documentation,
                registry=self._registry,
                multiprocess_mode=_MODES[family.name],
            )
        return gauge

    def _highest(self, family: Metric, value: float) -> float:
        if _MODES[family.name] != "livemax":
            return value
        values = self._maxima.setdefault(family.name, deque(maxlen=MAXIMUM_OF_COPIES))
        values.append(value)
        return max(values)
