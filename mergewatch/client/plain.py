"""The client for programs without an event loop, and for those whose loop must not be used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

from mergewatch.client.asynchronous import AsyncClient
from mergewatch.client.bodies import (
    AddedQuarantine,
    Event,
    EventAggregate,
    EventIntake,
    Execution,
    Failure,
    FailureDetail,
    HealthReport,
    Quarantine,
    QuarantineChange,
    Repository,
    Run,
    Series,
    Stat,
    StreamedEvent,
    TestDetail,
    TestGroup,
    TestIdentity,
    TestSeries,
    TestStat,
    TestTotal,
    TestTransitions,
    Transition,
)
from mergewatch.client.filters import (
    EventFilters,
    EventSelection,
    ExecutionFilters,
    ExecutionSelection,
    FailureFilters,
    Grouping,
    PageSize,
    QuarantineFilters,
    QuarantineOptions,
    RepositoryFilters,
    RunFilters,
    StatsFilters,
    TestFilters,
    TestSelection,
    TransitionFilters,
)
from mergewatch.client.rows import Rows

T = TypeVar("T")


class Client:
    """`AsyncClient`, for threads that wait. It runs an event loop in a thread of its own.

    Several threads may share a client. Close it, or use it in a `with` statement.
    """

    def __init__(self, url: str, token: str) -> None:
        """Start the thread; sends nothing yet."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mergewatch-client", daemon=True
        )
        self._thread.start()
        self._client = self._run(_create(url, token))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; closing again does nothing."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def is_running(self) -> bool:
        """Return whether its thread runs: until it is closed."""
        return self._thread.is_alive()

    def list_events(self, repository: str, **filters: Unpack[EventFilters]) -> Iterator[Event]:
        """Walk the event log, newest first; by default that of the last day."""
        return self._walk(self._client.list_events(repository, **filters))

    def export_events(self, repository: str, **filters: Unpack[EventSelection]) -> Iterator[Event]:
        """Stream the event log in one request.

        Raises `BrokenStreamError` as well: a stream that ends without an error has all rows.
        """
        return self._walk(self._client.export_events(repository, **filters))

    def follow_events(
        self, repository: str, last_event_id: str | None = None
    ) -> Iterator[StreamedEvent]:
        """Wait for events as they arrive; goes on after a lost connection, without an end.

        Begins after the event of that `StreamedEvent.id`, or now. An event can come twice.
        """
        return self._walk(self._client.follow_events(repository, last_event_id))

    def aggregate_events(
        self, repository: str, **filters: Unpack[EventSelection]
    ) -> EventAggregate:
        """Count the event log: in all, over time, and by value."""
        return self._run(self._client.aggregate_events(repository, **filters))

    def search_tests(
        self, repository: str, test_name: str | list[str] = "*", **filters: Unpack[TestFilters]
    ) -> Iterator[TestIdentity]:
        """Walk the tests whose names match one of the globs."""
        return self._walk(self._client.search_tests(repository, test_name, **filters))

    def export_tests(
        self, repository: str, test_name: str | list[str] = "*", **filters: Unpack[TestSelection]
    ) -> Iterator[TestIdentity]:
        """Stream the tests whose names match in one request; see `export_events`."""
        return self._walk(self._client.export_tests(repository, test_name, **filters))

    def count_tests(
        self, repository: str, test_name: str | list[str] = "*", **filters: Unpack[TestSelection]
    ) -> TestTotal:
        """Return how many rows the search has, counted up to 10,000."""
        return self._run(self._client.count_tests(repository, test_name, **filters))

    def get_test(self, repository: str, test_id: UUID | str) -> TestDetail:
        """Return one test over all its pipelines and jobs."""
        return self._run(self._client.get_test(repository, test_id))

    def get_test_health(self, repository: str, test_id: UUID | str) -> HealthReport:
        """Return why a test is healthy, flaky or broken."""
        return self._run(self._client.get_test_health(repository, test_id))

    def list_executions(
        self, repository: str, test_id: UUID | str, **filters: Unpack[ExecutionFilters]
    ) -> Iterator[Execution]:
        """Walk the executions of a test, newest first; by default those of the last 30 days."""
        return self._walk(self._client.list_executions(repository, test_id, **filters))

    def export_executions(
        self, repository: str, test_id: UUID | str, **filters: Unpack[ExecutionSelection]
    ) -> Iterator[Execution]:
        """Stream the executions of a test in one request; see `export_events`."""
        return self._walk(self._client.export_executions(repository, test_id, **filters))

    def list_failures(
        self, repository: str, test_id: UUID | str, **filters: Unpack[FailureFilters]
    ) -> Iterator[Failure]:
        """Walk the failures of a test, latest first; those that say the same are one."""
        return self._walk(self._client.list_failures(repository, test_id, **filters))

    def get_failure(
        self, repository: str, test_id: UUID | str, failure_id: UUID | str
    ) -> FailureDetail:
        """Return one failure of a test with its newest events and their stack traces."""
        return self._run(self._client.get_failure(repository, test_id, failure_id))

    def list_repositories(
        self, owner: str, **filters: Unpack[RepositoryFilters]
    ) -> Iterator[Repository]:
        """Walk the repositories of an owner that the key sees, with the health of their tests."""
        return self._walk(self._client.list_repositories(owner, **filters))

    def list_runs(self, repository: str, **filters: Unpack[RunFilters]) -> Iterator[Run]:
        """Walk the CI jobs whose results arrived, newest first."""
        return self._walk(self._client.list_runs(repository, **filters))

    def list_health_transitions(
        self, repository: str, **filters: Unpack[TransitionFilters]
    ) -> Iterator[Transition]:
        """Walk the changes of health of all tests, newest first."""
        return self._walk(self._client.list_health_transitions(repository, **filters))

    def get_test_transitions(self, repository: str, test_id: UUID | str) -> TestTransitions:
        """Return the newest changes of the health of a test."""
        return self._run(self._client.get_test_transitions(repository, test_id))

    def get_stats(self, repository: str, stat: Stat, **filters: Unpack[StatsFilters]) -> Series:
        """Return a figure about the tests of a repository, by UTC day."""
        return self._run(self._client.get_stats(repository, stat, **filters))

    def group_tests(self, repository: str, by: Grouping) -> list[TestGroup]:
        """Count tests by pipeline, job, directory or owner, worst first."""
        return self._run(self._client.group_tests(repository, by))

    def get_test_stats(
        self, repository: str, test_id: UUID | str, stat: TestStat, **filters: Unpack[StatsFilters]
    ) -> TestSeries:
        """Return a figure about one test, by UTC day."""
        return self._run(self._client.get_test_stats(repository, test_id, stat, **filters))

    def list_quarantines(
        self, repository: str, **filters: Unpack[QuarantineFilters]
    ) -> Iterator[Quarantine]:
        """Walk the quarantines in force, oldest first."""
        return self._walk(self._client.list_quarantines(repository, **filters))

    def get_quarantine(self, repository: str, quarantine_id: UUID | str) -> Quarantine:
        """Return one quarantine in force."""
        return self._run(self._client.get_quarantine(repository, quarantine_id))

    def add_quarantine(
        self, repository: str, test_name: str, reason: str, **options: Unpack[QuarantineOptions]
    ) -> AddedQuarantine:
        """Quarantine a test; the same test and branch again changes the quarantine in force."""
        return self._run(self._client.add_quarantine(repository, test_name, reason, **options))

    def remove_quarantine(self, repository: str, quarantine_id: UUID | str) -> None:
        """End a quarantine."""
        self._run(self._client.remove_quarantine(repository, quarantine_id))

    def list_quarantine_changes(
        self, repository: str, **filters: Unpack[PageSize]
    ) -> Iterator[QuarantineChange]:
        """Walk the changes of quarantines, newest first."""
        return self._walk(self._client.list_quarantine_changes(repository, **filters))

    def send_events(self, repository: str, lines: bytes) -> EventIntake:
        """Send events of that repository, one JSON object a line. Sending again changes nothing."""
        return self._run(self._client.send_events(repository, lines))

    def send_traces(self, repository: str, request: bytes) -> bytes:
        """Send an OTLP `ExportTraceServiceRequest` in protobuf; return the response message."""
        return self._run(self._client.send_traces(repository, request))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C ends the wait of this thread; the request ends with it.
            future.cancel()
            raise

    def _walk(self, rows: Rows[T]) -> Iterator[T]:
        pages = rows.pages()
        try:
            while True:
                page = self._run(_next(pages))
                if page is None:
                    return
                yield from page
        except GeneratorExit:
            # The collector may run this in the thread of the loop, so it does not wait.
            if self.is_running:
                asyncio.run_coroutine_threadsafe(pages.aclose(), self._loop)
            raise


async def _create(url: str, token: str) -> AsyncClient:
    return AsyncClient(url, token)


async def _next(pages: AsyncGenerator[list[T], None]) -> list[T] | None:
    return await anext(pages, None)
