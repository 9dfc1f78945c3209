"""Collects test results while they are uploaded, and keeps collecting if the upload fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from indexing.errors import StoreUnavailableError
from indexing.ingest.junit import ExecutionSink
from indexing.models.executions import Execution, Run
from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store.interface import ExecutionCount, Steps
from service.cli.ci.decision import TestResults
from service.cli.upload import ServiceRequestError

T = TypeVar("T")


class ResultCollector:
    """An `ExecutionSink` that only collects test results; they count as unchanged."""

    def __init__(self) -> None:
        self.results = TestResults()

    async def ensure_repository(self, name: RepositoryName) -> Repository | None:  # noqa: ARG002 - it stores none
        return None

    async def write_results(
        self,
        repository: RepositoryName,  # noqa: ARG002 - all results are of one repository
        results: Mapping[Run, Sequence[Execution]],
    ) -> ExecutionCount:
        for executions in results.values():
            self.results.add(executions)
        return ExecutionCount(written=0, unchanged=sum(map(len, results.values())))

    async def refresh_tests(
        self,
        now: datetime,  # noqa: ARG002 - it derives nothing
        progress: Steps | None,  # noqa: ARG002 - as above
        repository: RepositoryName | None,  # noqa: ARG002 - as above
    ) -> int:
        return 0


class CollectingSink(ResultCollector):
    """A collector that passes the test results on to another sink.

    It stops passing results on after the first failure of the other sink, or once the calls have
    taken `seconds` in total, if these are limited. `failure` then holds the reason.
    """

    def __init__(self, sink: ExecutionSink, seconds: float | None) -> None:
        super().__init__()
        self.failure: str | None = None
        self._sink = sink
        self._seconds_left = seconds
        self._seconds = seconds

    async def ensure_repository(self, name: RepositoryName) -> Repository | None:
        return await self.attempt(self._sink.ensure_repository(name))

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        """Collect the executions and pass them on; those not passed on count as unchanged."""
        collected = await super().write_results(repository, results)
        if self.failure is None:
            count = await self.attempt(self._sink.write_results(repository, results))
            if count is not None:
                return count
        return collected

    async def refresh_tests(
        self, now: datetime, progress: Steps | None, repository: RepositoryName | None
    ) -> int:
        if self.failure is not None:
            return 0
        return await self.attempt(self._sink.refresh_tests(now, progress, repository)) or 0

    def take_failure(self) -> str | None:
        """Return the failure and forget it, so that results are passed on again."""
        failure, self.failure = self.failure, None
        return failure

    async def attempt(self, work: Awaitable[T], share: float = 1) -> T | None:
        """Await the work within a share of the remaining time.

        Returns None and sets `failure` if it fails.
        """
        began = time.monotonic()
        left = self._seconds_left
        seconds = None if left is None else max(left, 0) * share
        try:
            async with asyncio.timeout(seconds):
                return await work
        except ServiceRequestError as error:
            self.failure = str(error)
        except StoreUnavailableError as error:
            self.failure = f"the store is unavailable: {error}"
        except TimeoutError:
            if seconds is None:
                raise
            within = self._seconds if share == 1 else seconds
            self.failure = f"the service took longer than {within:g} s"
        finally:
            if left is not None:
                self._seconds_left = left - (time.monotonic() - began)
        return None
