"""The client for asyncio."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Final, Self, Unpack, cast
from uuid import UUID

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
from mergewatch.client.errors import (
    BrokenStreamError,
    ForeignServiceError,
    ProblemError,
    UnreachableError,
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
from mergewatch.client.lines import LineBuffer, LineTooLongError, MessageReader
from mergewatch.client.links import next_query
from mergewatch.client.parsing import parse_object, parse_rows
from mergewatch.client.requests import (
    encode_body,
    encode_query,
    events_path,
    known,
    repositories_path,
    tests_path,
)
from mergewatch.client.retries import RETRIED_STATUSES
from mergewatch.client.rows import FollowedEvents, Rows
from mergewatch.client.transport import Response, Sleep, Transport

# The largest page size, so that reading a list takes the fewest requests.
_PER_PAGE: Final = 100
_GZIP_LEVEL: Final = 6

_ROWS_TYPE: Final = "application/x-ndjson"
_EVENTS_TYPE: Final = "text/event-stream"
_TRACES_TYPE: Final = "application/x-protobuf"
# How long to wait before a stream of events is opened again, unless the service sends `retry`.
_RECONNECT_SECONDS: Final = 2.0
_MAX_RECONNECT_SECONDS: Final = 30.0


class AsyncClient:
    """Requests to one service with one key; `repository` is always `owner/repository`.

    Every method raises `ProblemError`, `UnreachableError` or `ForeignServiceError`.
    """

    def __init__(self, url: str, token: str, *, sleep: Sleep = asyncio.sleep) -> None:
        """Create the client on the event loop that will use it; sends nothing yet.

        Raises:
            ValueError: no request can be sent with this URL or token.
        """
        self._transport = Transport(url, token, sleep=sleep)
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def list_repositories(
        self, owner: str, **filters: Unpack[RepositoryFilters]
    ) -> Rows[Repository]:
        """List the repositories of an owner that the key can read, with their test health."""
        return self._rows(repositories_path(owner), "repositories", RepositoryFilters, filters)

    def list_events(self, repository: str, **filters: Unpack[EventFilters]) -> Rows[Event]:
        """List events, newest first; by default those of the last day."""
        return self._rows(events_path(repository), "events", EventFilters, filters)

    def export_events(self, repository: str, **filters: Unpack[EventSelection]) -> Rows[Event]:
        """Stream the event log in one request.

        Also raises `BrokenStreamError`. If the stream ends without an error, no row is missing.
        """
        return self._stream(events_path(repository), EventSelection, filters)

    def follow_events(self, repository: str, last_event_id: str | None = None) -> FollowedEvents:
        """Stream events as they arrive, and reconnect after a lost connection; never ends.

        Starts after the event with the `StreamedEvent.id` `last_event_id`, or now. An event can be
        returned twice. If the service goes away after the stream was open, retries without limit.
        Raises `ProblemError` if the id is unknown or the key is no longer accepted.
        """
        path = events_path(repository, "stream")
        return FollowedEvents(partial(self._follow, path, last_event_id))

    async def aggregate_events(
        self, repository: str, **filters: Unpack[EventSelection]
    ) -> EventAggregate:
        """Count events: in total, over time, and by value."""
        path = events_path(repository, "aggregate")
        query = encode_query(known(EventSelection, filters))
        return cast("EventAggregate", await self._get(path, "total", query))

    def search_tests(
        self, repository: str, test_name: OneOrMore = "*", **filters: Unpack[TestFilters]
    ) -> Rows[TestIdentity]:
        """List the tests whose names match one of the globs."""
        path = tests_path(repository, "search", "tests")
        return self._rows(path, "tests", TestFilters, filters, test_name=test_name)

    def export_tests(
        self, repository: str, test_name: OneOrMore = "*", **filters: Unpack[TestSelection]
    ) -> Rows[TestIdentity]:
        """Stream the tests whose names match, in one request; see `export_events`."""
        path = tests_path(repository, "search", "tests")
        return self._stream(path, TestSelection, filters, test_name=test_name)

    async def count_tests(
        self, repository: str, test_name: OneOrMore = "*", **filters: Unpack[TestSelection]
    ) -> TestTotal:
        """Return the number of rows that match, counted up to 10,000."""
        values = {**known(TestSelection, filters), "include": "total", "per_page": 1}
        query = encode_query({"test_name": test_name, **values})
        path = tests_path(repository, "search", "tests")
        return cast("TestTotal", await self._get(path, "tests", query))

    async def get_test(self, repository: str, test_id: UUID | str) -> TestDetail:
        """Return one test, summed up over all its pipelines and jobs."""
        path = tests_path(repository, "tests", test_id)
        return cast("TestDetail", await self._get(path, "test_id"))

    async def get_test_health(
        self, repository: str, test_id: UUID | str, **options: Unpack[HealthOptions]
    ) -> HealthReport:
        """Return the health of a test in each job, with the reasons."""
        path = tests_path(repository, "tests", test_id, "health")
        query = encode_query(known(HealthOptions, options))
        return cast("HealthReport", await self._get(path, "jobs", query))

    def list_executions(
        self, repository: str, test_id: UUID | str, **filters: Unpack[ExecutionFilters]
    ) -> Rows[Execution]:
        """List the executions of a test, newest first; by default those of the last 30 days."""
        path = tests_path(repository, "tests", test_id, "executions")
        return self._rows(path, "executions", ExecutionFilters, filters)

    def export_executions(
        self, repository: str, test_id: UUID | str, **filters: Unpack[ExecutionSelection]
    ) -> Rows[Execution]:
        """Stream the executions of a test in one request; see `export_events`."""
        path = tests_path(repository, "tests", test_id, "executions")
        return self._stream(path, ExecutionSelection, filters)

    def list_failures(
        self, repository: str, test_id: UUID | str, **filters: Unpack[FailureFilters]
    ) -> Rows[Failure]:
        """List the failures of a test, latest first; executions that failed alike are grouped."""
        path = tests_path(repository, "tests", test_id, "failures")
        return self._rows(path, "failures", FailureFilters, filters)

    async def get_failure(
        self, repository: str, test_id: UUID | str, failure_id: UUID | str
    ) -> FailureDetail:
        """Return one failure of a test, with its newest executions and their stack traces."""
        path = tests_path(repository, "tests", test_id, "failures", failure_id)
        return cast("FailureDetail", await self._get(path, "latest_events"))

    def list_runs(self, repository: str, **filters: Unpack[RunFilters]) -> Rows[Run]:
        """List the CI jobs with stored results, newest first."""
        return self._rows(tests_path(repository, "runs"), "runs", RunFilters, filters)

    def list_health_transitions(
        self, repository: str, **filters: Unpack[TransitionFilters]
    ) -> Rows[Transition]:
        """List the health changes of all tests, newest first."""
        path = tests_path(repository, "health-transitions")
        return self._rows(path, "transitions", TransitionFilters, filters)

    async def get_test_transitions(self, repository: str, test_id: UUID | str) -> TestTransitions:
        """Return the newest health changes of a test."""
        path = tests_path(repository, "tests", test_id, "health-transitions")
        return cast("TestTransitions", await self._get(path, "transitions"))

    async def get_stats(
        self, repository: str, stat: Stat, **filters: Unpack[StatsFilters]
    ) -> Series:
        """Return a figure about the tests of a repository, by UTC day."""
        path = tests_path(repository, "tests", "stats", stat)
        query = encode_query(known(StatsFilters, filters))
        return cast("Series", await self._get(path, "value_over_time", query))

    async def group_tests(self, repository: str, by: Grouping) -> list[TestGroup]:
        """Count tests by pipeline, job, directory or owner, worst first."""
        path = tests_path(repository, "tests", "groups")
        response = await self._transport.send("GET", path, query=encode_query({"by": by}))
        return self._read_rows(response, "groups")

    async def get_test_stats(
        self, repository: str, test_id: UUID | str, stat: TestStat, **filters: Unpack[StatsFilters]
    ) -> TestSeries:
        """Return a figure about one test, by UTC day."""
        path = tests_path(repository, "tests", test_id, "stats", stat)
        query = encode_query(known(StatsFilters, filters))
        return cast("TestSeries", await self._get(path, "value_over_time", query))

    def list_quarantines(
        self, repository: str, **filters: Unpack[QuarantineFilters]
    ) -> Rows[Quarantine]:
        """List the quarantines in force, oldest first."""
        path = tests_path(repository, "quarantines")
        return self._rows(path, "quarantined_tests", QuarantineFilters, filters)

    async def get_quarantine(self, repository: str, quarantine_id: UUID | str) -> Quarantine:
        """Return one quarantine in force."""
        path = tests_path(repository, "quarantines", quarantine_id)
        return cast("Quarantine", await self._get(path, "id"))

    async def add_quarantine(
        self, repository: str, test_name: str, reason: str, **options: Unpack[QuarantineOptions]
    ) -> AddedQuarantine:
        """Quarantine a test, or update its quarantine in force for the same branch."""
        wanted = {"test_name": test_name, "reason": reason, **known(QuarantineOptions, options)}
        response = await self._transport.send(
            "POST",
            tests_path(repository, "quarantines"),
            body=encode_body(wanted),
            headers={"Content-Type": "application/json"},
        )
        return cast("AddedQuarantine", self._parse(response.body, "id"))

    async def remove_quarantine(self, repository: str, quarantine_id: UUID | str) -> None:
        """End a quarantine."""
        path = tests_path(repository, "quarantines", quarantine_id)
        try:
            await self._transport.send("DELETE", path)
        except ProblemError as problem:
            # An attempt without a response may have ended it.
            if problem.status != 404 or not problem.response_lost:
                raise

    def list_quarantine_changes(
        self, repository: str, **filters: Unpack[PageSize]
    ) -> Rows[QuarantineChange]:
        """List the changes of quarantines, newest first."""
        path = tests_path(repository, "quarantines", "changes")
        return self._rows(path, "changes", PageSize, filters)

    async def send_events(self, repository: str, lines: bytes) -> EventIntake:
        """Send events of the repository as NDJSON. Sending the same events again is idempotent."""
        response = await self._send_packed(events_path(repository), lines, _ROWS_TYPE)
        return cast("EventIntake", self._parse(response.body, "read"))

    async def send_traces(self, repository: str, request: bytes) -> bytes:
        """Send an OTLP `ExportTraceServiceRequest` in protobuf; return the response message.

        Sending the same spans again is idempotent.
        """
        path = tests_path(repository, "traces")
        response = await self._send_packed(path, request, _TRACES_TYPE)
        if response.content_type != _TRACES_TYPE:
            raise self._foreign()
        return response.body

    def shown(self, text: str) -> str:
        """Shorten text that a service sent, and mask the token in it."""
        return self._transport.shown(text)

    async def _send_packed(self, path: str, body: bytes, media_type: str) -> Response:
        packed = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
        headers = {"Content-Type": media_type, "Content-Encoding": "gzip"}
        return await self._transport.send("POST", path, body=packed, headers=headers)

    def _rows(
        self, path: str, rows: str, declared: type, filters: Mapping[str, object], **more: object
    ) -> Rows[Any]:
        query = encode_query({"per_page": _PER_PAGE, **more, **known(declared, filters)})
        return Rows(partial(self._pages, path, rows, query))

    def _stream(
        self, path: str, declared: type, filters: Mapping[str, object], **more: object
    ) -> Rows[Any]:
        query = encode_query({**more, **known(declared, filters)})
        return Rows(partial(self._read_stream, path, query))

    async def _read_stream(self, path: str, query: str) -> AsyncGenerator[list[Any], None]:
        lines = LineBuffer()
        async with self._transport.open_stream(path, _ROWS_TYPE, query=query) as pieces:
            async for piece in pieces:
                rows = self._read_lines(lines, piece)
                if rows:
                    yield rows
        if not lines.is_empty:
            raise BrokenStreamError(f"{self._transport.url} broke the stream off within a row")

    async def _follow(
        self, path: str, last_id: str | None, followed: FollowedEvents
    ) -> AsyncGenerator[list[StreamedEvent], None]:
        reader = MessageReader(last_id)
        was_open = False
        while True:
            headers = {} if reader.last_id is None else {"Last-Event-ID": reader.last_id}
            stream = self._transport.open_stream(path, _EVENTS_TYPE, headers=headers)
            try:
                async with stream as pieces:
                    was_open = True
                    async for piece in pieces:
                        events = self._read_messages(reader, piece)
                        if events:
                            yield events
                        followed.last_id = reader.last_id
            except UnreachableError:
                # Once the stream was open, only this reader knows the position to resume from.
                if not was_open:
                    raise
            except ProblemError as problem:
                if not was_open or problem.status not in RETRIED_STATUSES:
                    raise
            reader.reconnect()
            wait = reader.retry_seconds
            await self._sleep(
                _RECONNECT_SECONDS if wait is None else min(wait, _MAX_RECONNECT_SECONDS)
            )

    def _read_lines(self, lines: LineBuffer, piece: bytes) -> list[Any]:
        try:
            return [self._parse(line) for line in lines.feed(piece)]
        except LineTooLongError:
            raise self._foreign() from None

    def _read_messages(self, reader: MessageReader, piece: bytes) -> list[StreamedEvent]:
        try:
            return [
                StreamedEvent(message.id, cast("Event", self._parse(message.data)))
                for message in reader.feed(piece)
            ]
        except LineTooLongError:
            raise self._foreign() from None

    async def _pages(self, path: str, rows: str, query: str) -> AsyncGenerator[list[Any], None]:
        while True:
            response = await self._transport.send("GET", path, query=query)
            yield self._read_rows(response, rows)
            following = next_query(response.link)
            if following is None or following == query:
                return
            query = following

    async def _get(self, path: str, field: str, query: str = "") -> Mapping[str, Any]:
        response = await self._transport.send("GET", path, query=query)
        return self._parse(response.body, field)

    def _read_rows(self, response: Response, field: str) -> list[Any]:
        try:
            return parse_rows(response.body, field)
        except ValueError:
            raise self._foreign() from None

    def _parse(self, text: bytes, field: str | None = None) -> Mapping[str, Any]:
        """Parse an object; `field` is one that it has in every release of the service."""
        try:
            return parse_object(text, field)
        except ValueError:
            raise self._foreign() from None

    def _foreign(self) -> ForeignServiceError:
        return ForeignServiceError(f"{self._transport.url} is not a mergewatch service")
