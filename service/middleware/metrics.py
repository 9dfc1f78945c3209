"""The metrics of a process for Prometheus, if the operator turns them on.

Labels are operations, statuses and reasons, and repositories that the operator names: never a
credential, an id, or any other owner or repository.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from indexing.clocks import Clock
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.cache.backend import CacheBackend
from service.cache.session import CacheReads
from service.metrics.copied_metrics import CopiedMetrics
from service.metrics.health_gauges import HealthGauges
from service.metrics.loop_lag import LoopLag
from service.metrics.measured_store import StoreMetrics
from service.metrics.outbox_gauges import OutboxGauges
from service.metrics.quarantine_gauges import QuarantineGauges
from service.metrics.store_gauges import StoreGauges
from service.middleware.layer import Handler
from service.routes import name_operation

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Any client may scrape as often as it likes, and no queue holds it back. To write a page takes some
# 20 milliseconds of the event loop. So all pages take at most this share of the time, and this many
# seconds in addition; beyond that, the last page is sent again.
WRITING_SHARE: Final = 0.1
WRITING_SECONDS: Final = 0.2

# From a cached response to one that no client waits for.
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_ATTEMPTS: Final = 3

# An exchange that takes longer than 50 milliseconds fails.
_REDIS_BUCKETS: Final = (0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05)

# No input may hold the event loop for more than 50 milliseconds.
_LAG_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class CountsHits(Protocol):
    """The count that metrics read from the response cache."""

    hits: int


class CountsRequests(Protocol):
    """The counts that metrics read from the queue of admission control."""

    refused: int

    @property
    def waiting(self) -> int:
        """How many requests wait."""


class Metrics:
    """The metrics of one process or, with a `folder`, of all workers that share it."""

    def __init__(
        self,
        response_cache: CountsHits,
        queue: CountsRequests,
        backend: CacheBackend,
        cache_reads: CacheReads,
        folder: Path | None,
    ) -> None:
        self._folder = folder
        self._writing = asyncio.Lock()
        self._pages: set[asyncio.Task[bytes]] = set()
        self._page: bytes | None = None
        # The seconds of writing that were more than the share until then.
        self._debt, self._noted = 0.0, time.monotonic()
        self._gauges: list[StoreGauges] = []
        self._registry = CollectorRegistry()
        self._lag = Histogram(
            "mergewatch_event_loop_lag_seconds",
            "Event loop lag, measured every 10 milliseconds.",
            buckets=_LAG_BUCKETS,
            registry=self._registry,
        )
        self._loop_lag = LoopLag(self._lag.observe)
        collectors: list[Collector] = [
            _Process(response_cache, queue, self._loop_lag),
            _CacheReads(cache_reads),
        ]
        if backend.status is not None:
            collectors.append(_Redis(backend))
            exchanges = Histogram(
                "mergewatch_redis_seconds",
                "Time of an exchange with Redis, which carries the look-ups of many requests.",
                buckets=_REDIS_BUCKETS,
                registry=self._registry,
            )
            backend.time_exchanges(exchanges.observe)
        self._copies = CopiedMetrics(() if folder is None else collectors)
        if folder is None:
            for collector in collectors:
                self._registry.register(collector)
        self._requests = Counter(
            "mergewatch_requests",
            "Requests answered.",
            ("operation", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "mergewatch_request_seconds",
            "Time from reading a request to its response being ready.",
            ("operation",),
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def start(self) -> None:
        """Measure until `stop` is called."""
        self._loop_lag.start()
        if self._folder is not None:
            self._copies.start()

    async def stop(self) -> None:
        """Stop measuring."""
        self._loop_lag.stop()
        for gauges in self._gauges:
            await gauges.close()
        if self._folder is not None:
            self._copies.stop()

    def measure(self, store: Store, repositories: Sequence[RepositoryName], clock: Clock) -> Store:
        """Return the same store, measured, and add the metrics of these repositories."""
        self._gauges.append(HealthGauges(store, repositories))
        self._gauges.append(OutboxGauges(store, clock))
        if repositories:
            self._gauges.append(QuarantineGauges(store, repositories, clock))
        if self._folder is None:
            for gauges in self._gauges:
                self._registry.register(gauges)
        return StoreMetrics(self._registry, repositories).measure(store)

    def wrap(self, handler: Handler) -> Handler:
        """Wrap the handler: count and time the requests that it answers."""

        async def answer(request: BaseRequest) -> StreamResponse:
            began = time.perf_counter()
            response = await handler(request)
            operation = name_operation(request.method, request.raw_path)
            self.count(operation, response.status, time.perf_counter() - began)
            return response

        return answer

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    async def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus.

        To a client that asks very often, these are earlier ones.
        """
        await asyncio.gather(*(gauges.refresh() for gauges in self._gauges))
        # A client that leaves must not take its page off the budget.
        page = asyncio.create_task(self._find_page())
        self._pages.add(page)
        page.add_done_callback(self._pages.discard)
        return await asyncio.shield(page)

    async def _find_page(self) -> bytes:
        """Return a new page, or the last one while the budget is used up."""
        async with self._writing:
            now = time.monotonic()
            self._debt = max(0.0, self._debt - WRITING_SHARE * (now - self._noted))
            self._noted = now
            if self._page is None or self._debt < WRITING_SECONDS:
                self._page, seconds = await self._write()
                self._debt += seconds
            return self._page

    async def _write(self) -> tuple[bytes, float]:
        """Return a new page, and the seconds of CPU time that it took."""
        if self._folder is None:
            return _time(partial(generate_latest, self._registry))
        self._copies.copy()
        # With dozens of workers this takes a tenth of a second.
        return await asyncio.to_thread(_time, partial(_render_all, self._folder, self._gauges))


def _time(write: Callable[[], bytes]) -> tuple[bytes, float]:
    began = time.thread_time()
    return write(), time.thread_time() - began


def _render_all(folder: Path, gauges: Sequence[Collector]) -> bytes:
    """Return the metrics of all workers that share the folder, and those gauges."""
    registry = CollectorRegistry()
    for each in gauges:
        registry.register(each)
    MultiProcessCollector(registry, str(folder))
    for _ in range(_ATTEMPTS - 1):
        # A file that a new worker is just creating is still empty.
        with suppress(struct.error):
            return generate_latest(registry)
    return generate_latest(registry)


METRICS: Final = web.AppKey("metrics", Metrics)


class _Process(Collector):
    """Metrics that other parts of the process count themselves."""

    def __init__(
        self, response_cache: CountsHits, queue: CountsRequests, loop_lag: LoopLag
    ) -> None:
        self._response_cache = response_cache
        self._queue = queue
        self._loop_lag = loop_lag

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "mergewatch_response_cache_hits",
            "Requests answered from the response cache.",
            value=self._response_cache.hits,
        )
        yield CounterMetricFamily(
            "mergewatch_requests_shed",
            "Requests refused by admission control because of overload.",
            value=self._queue.refused,
        )
        yield GaugeMetricFamily(
            "mergewatch_waiting_requests",
            "Requests waiting for a slot.",
            value=self._queue.waiting,
        )
        yield GaugeMetricFamily(
            "mergewatch_event_loop_lag_max_seconds",
            "Maximum event loop lag since the last scrape.",
            value=self._loop_lag.take_longest(),
        )


class _CacheReads(Collector):
    """The number of values that requests read, by where they were found."""

    def __init__(self, reads: CacheReads) -> None:
        self._reads = reads

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "mergewatch_cache_reads",
            "Values that requests asked the cache for, by where they were found.",
            labels=("source",),
        )
        family.add_metric(("process",), self._reads.process)
        family.add_metric(("redis",), self._reads.redis)
        family.add_metric(("store",), self._reads.store)
        yield family


class _Redis(Collector):
    """The state of the shared cache, if there is one."""

    def __init__(self, backend: CacheBackend) -> None:
        self._backend = backend

    def collect(self) -> Iterator[Metric]:
        status = self._backend.status
        if status is None:
            return
        yield GaugeMetricFamily(
            "mergewatch_redis_usable",
            "Whether this process can read and write values in Redis: 1 or 0.",
            value=status.usable,
        )
        failures = CounterMetricFamily(
            "mergewatch_redis_failures",
            "Redis failures that lost cached values, by reason.",
            labels=("reason",),
        )
        for reason, count in status.failures.items():
            failures.add_metric((reason,), count)
        yield failures
