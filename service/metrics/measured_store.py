"""Times the calls of a store and counts its failures, if metrics are turned on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from indexing.errors import StoreError, StoreUnavailableError
from indexing.models.executions import Execution
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.metrics.wrapped_store import CALLER_ERRORS, Call, wrap_calls

# From a read of the embedded store to a large write into a cluster.
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class StoreMetrics:
    """Times the calls of a store, and counts the executions of some repositories."""

    def __init__(self, registry: CollectorRegistry, repositories: Sequence[RepositoryName]) -> None:
        self._repositories = {name.key: str(name) for name in repositories}
        self._seconds = Histogram(
            "mergewatch_store_seconds",
            "Time of a call of the store.",
            ("call",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._errors = Counter(
            "mergewatch_store_errors",
            "Calls of the store that failed or were cancelled.",
            ("call", "reason"),
            registry=registry,
        )
        self._executions = Counter(
            "mergewatch_executions_ingested",
            "Executions accepted over HTTP, repeated ones too, of the repositories that are named.",
            ("repository", "conclusion"),
            registry=registry,
        )

    def measure(self, store: Store) -> Store:
        """Return the same store, measured."""
        return wrap_calls(store, self._wrap)

    def _wrap(self, name: str, call: Call) -> Call:
        timed = self._time(name, call)
        if self._repositories and name == "write_results":
            return self._count_results(timed)
        return timed

    def _time(self, name: str, call: Call) -> Call:
        seconds = self._seconds.labels(name)

        async def timed(*args: Any, **rest: Any) -> Any:
            began = time.perf_counter()
            try:
                answer = await call(*args, **rest)
            except asyncio.CancelledError:
                # The request timed out, or its client left: the slowest calls end like this.
                seconds.observe(time.perf_counter() - began)
                self._errors.labels(name, "cancelled").inc()
                raise
            except CALLER_ERRORS:
                raise
            except StoreError as error:
                is_unavailable = isinstance(error, StoreUnavailableError)
                self._errors.labels(name, "unavailable" if is_unavailable else "error").inc()
                raise
            seconds.observe(time.perf_counter() - began)
            return answer

        return timed

    def _count_results(self, write: Call) -> Call:
        async def counted(repository: RepositoryName, results: Any) -> Any:
            count = await write(repository, results)
            for executions in results.values():
                self._count(repository, executions)
            return count

        return counted

    def _count(self, repository: RepositoryName, executions: Iterable[Execution]) -> None:
        name = self._repositories.get(repository.key)
        if name is None:
            return
        for execution in executions:
            self._executions.labels(name, execution.conclusion.value).inc()
