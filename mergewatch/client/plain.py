"""The client for programs without an event loop, or whose loop the client must not use."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Self, TypeVar, Unpack
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
    HealthOptions,
    OneOrMore,
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
from mergewatch.client.rows import FollowedIterator, Rows

T = TypeVar("T")

_CLOSED: Final = "the client is closed"
_FORKED: Final = "the client cannot be used after a fork: create one in each process"


class Client:
    """A synchronous `AsyncClient`, which it runs on an event loop in a thread of its own.

    Several threads may share a client. Close it, or use it in a `with` statement. A process that
    was forked from the one that created it gets a `RuntimeError`, as its thread is not forked.
    """

    def __init__(self, url: str, token: str) -> None:
        """Start the thread; sends nothing yet.

        Raises:
            ValueError: no request can be sent with this URL or token.
        """
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        # Held while work is handed to the loop, so that none comes after the last. A signal handler
        # may close the client while its thread holds it.
        self._lock = threading.RLock()
        self._closing: Future[None] | None = None
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mergewatch-client", daemon=True
        )
        self._thread.start()
        try:
            self._client = self._run(_create(url, token))
        except BaseException:
            self._end_thread()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; closing again does nothing.

        Other threads that wait for a response get a `RuntimeError`. In a forked process it does
        nothing, as the connections are those of the other process.
        """
        if self._is_forked:
            return
        with self._lock:
            if self._closing is None:
                self._closing = asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)
        self._closing.result()
        with self._lock:
            if not self._loop.is_closed():
                self._end_thread()

    @property
    def is_running(self) -> bool:
        """Whether the thread of the client runs, which it does until the client is closed."""
        return self._thread.is_alive()

    def list_events(self, repository: str, **filters: Unpack[EventFilters]) -> Iterator[Event]:
        """List events, newest first; by default those of the last day."""
        return self._walk(self._client.list_events(repository, **filters))

    def export_events(self, repository: str, **filters: Unpack[EventSelection]) -> Iterator[Event]:
        """Stream the event log in one request.

        Also raises `BrokenStreamError`. If the stream ends without an error, no row is missing.
        """
        return self._walk(self._client.export_events(repository, **filters))

    def follow_events(self, repository: str, last_event_id: str | None = None) -> FollowedIterator:
        """Stream events as they arrive, and reconnect after a lost connection; never ends.

        Starts after the event with the `StreamedEvent.id` `last_event_id`, or now. An event can be
        returned twice.
        """
        followed = self._client.follow_events(repository, last_event_id)
        return FollowedIterator(followed, self._walk(followed))

    def aggregate_events(
        self, repository: str, **filters: Unpack[EventSelection]
    ) -> EventAggregate:
        """Count events: in total, over time, and by value."""
        return self._run(self._client.aggregate_events(repository, **filters))

    def search_tests(
        self, repository: str, test_name: OneOrMore = "*", **filters: Unpack[TestFilters]
    ) -> Iterator[TestIdentity]:
        """List the tests whose names match one of the globs."""
        return self._walk(self._client.search_tests(repository, test_name, **filters))

    def export_tests(
        self, repository: str, test_name: OneOrMore = "*", **filters: Unpack[TestSelection]
    ) -> Iterator[TestIdentity]:
        """Stream the tests whose names match, in one request; see `export_events`."""
        return self._walk(self._client.export_tests(repository, test_name, **filters))

    def count_tests(
        self, repository: str, test_name: OneOrMore = "*", **filters: Unpack[TestSelection]
    ) -> TestTotal:
        """Return the number of rows that match, counted up to 10,000."""
        return self._run(self._client.count_tests(repository, test_name, **filters))

    def get_test(self, repository: str, test_id: UUID | str) -> TestDetail:
        """Return one test, summed up over all its pipelines and jobs."""
        return self._run(self._client.get_test(repository, test_id))

    def get_test_health(
        self, repository: str, test_id: UUID | str, **options: Unpack[HealthOptions]
    ) -> HealthReport:
        """Return the health of a test in each job, with the reasons."""
        return self._run(self._client.get_test_health(repository, test_id, **options))

    def list_executions(
        self, repository: str, test_id: UUID | str, **filters: Unpack[ExecutionFilters]
    ) -> Iterator[Execution]:
        """List the executions of a test, newest first; by default those of the last 30 days."""
        return self._walk(self._client.list_executions(repository, test_id, **filters))

    def export_executions(
        self, repository: str, test_id: UUID | str, **filters: Unpack[ExecutionSelection]
    ) -> Iterator[Execution]:
        """Stream the executions of a test in one request; see `export_events`."""
        return self._walk(self._client.export_executions(repository, test_id, **filters))

    def list_failures(
        self, repository: str, test_id: UUID | str, **filters: Unpack[FailureFilters]
    ) -> Iterator[Failure]:
        """List the failures of a test, latest first; executions that failed alike are grouped."""
        return self._walk(self._client.list_failures(repository, test_id, **filters))

    def get_failure(
        self, repository: str, test_id: UUID | str, failure_id: UUID | str
    ) -> FailureDetail:
        """Return one failure of a test, with its newest executions and their stack traces."""
        return self._run(self._client.get_failure(repository, test_id, failure_id))

    def list_repositories(
        self, owner: str, **filters: Unpack[RepositoryFilters]
    ) -> Iterator[Repository]:
        """List the repositories of an owner that the key can read, with their test health."""
        return self._walk(self._client.list_repositories(owner, **filters))

    def list_runs(self, repository: str, **filters: Unpack[RunFilters]) -> Iterator[Run]:
        """List the CI jobs with stored results, newest first."""
        return self._walk(self._client.list_runs(repository, **filters))

    def list_health_transitions(
        self, repository: str, **filters: Unpack[TransitionFilters]
    ) -> Iterator[Transition]:
        """List the health changes of all tests, newest first."""
        return self._walk(self._client.list_health_transitions(repository, **filters))

    def get_test_transitions(self, repository: str, test_id: UUID | str) -> TestTransitions:
        """Return the newest health changes of a test."""
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
        """List the quarantines in force, oldest first."""
        return self._walk(self._client.list_quarantines(repository, **filters))

    def get_quarantine(self, repository: str, quarantine_id: UUID | str) -> Quarantine:
        """Return one quarantine in force."""
        return self._run(self._client.get_quarantine(repository, quarantine_id))

    def add_quarantine(
        self, repository: str, test_name: str, reason: str, **options: Unpack[QuarantineOptions]
    ) -> AddedQuarantine:
        """Quarantine a test, or update its quarantine in force for the same branch."""
        return self._run(self._client.add_quarantine(repository, test_name, reason, **options))

    def remove_quarantine(self, repository: str, quarantine_id: UUID | str) -> None:
        """End a quarantine."""
        self._run(self._client.remove_quarantine(repository, quarantine_id))

    def list_quarantine_changes(
        self, repository: str, **filters: Unpack[PageSize]
    ) -> Iterator[QuarantineChange]:
        """List the changes of quarantines, newest first."""
        return self._walk(self._client.list_quarantine_changes(repository, **filters))

    def send_events(self, repository: str, lines: bytes) -> EventIntake:
        """Send events of the repository as NDJSON. Sending the same events again is idempotent."""
        return self._run(self._client.send_events(repository, lines))

    def send_traces(self, repository: str, request: bytes) -> bytes:
        """Send an OTLP `ExportTraceServiceRequest` in protobuf; return the response message."""
        return self._run(self._client.send_traces(repository, request))

    @property
    def _is_forked(self) -> bool:
        # Ask before taking the lock: a thread that was not forked may hold it for ever.
        return os.getpid() != self._process

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _shut_down(self) -> None:
        own = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not own]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._client.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_forked:
            work.close()
            raise RuntimeError(_FORKED)
        with self._lock:
            if self._closing is not None:
                work.close()
                raise RuntimeError(_CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError(_CLOSED) from None
        except BaseException:
            # Ctrl-C interrupts the wait of this thread; cancel the request too.
            future.cancel()
            raise

    def _walk(self, rows: Rows[T]) -> Generator[T, None, None]:
        pages = rows.pages()
        try:
            while True:
                page = self._run(_next(pages))
                if page is None:
                    return
                yield from page
        except GeneratorExit:
            # The garbage collector may run this in any thread: do not wait, nor take the lock.
            if self._closing is None and not self._is_forked:
                asyncio.run_coroutine_threadsafe(pages.aclose(), self._loop)
            raise


async def _create(url: str, token: str) -> AsyncClient:
    return AsyncClient(url, token)


async def _next(pages: AsyncGenerator[list[T], None]) -> list[T] | None:
    return await anext(pages, None)
