"""The operations of the API: where each is found, what it takes, and what it answers.

Handlers read their parameters by this table, and the OpenAPI document is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from marshmallow import Schema

from indexing.ingest.bodies import JSON, PROTOBUF
from service.http.operations import Operation
from service.http.path_params import (
    OWNER,
    QUARANTINE_ID,
    REPOSITORY,
    REPOSITORY_NAME,
    TEST_ID,
    PathParameter,
)
from service.schemas.queries import EventsQuery, QuarantinesQuery, TestsQuery

# The media types that events are sent as.
EVENT_MEDIA_TYPES: Final = ("application/x-ndjson", "text/*")
TRACE_MEDIA_TYPES: Final = (PROTOBUF, JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation. `answer` names a component of the OpenAPI document.

    A response that is `tagged` has an entity tag. `media_types` are those of the request body; an
    operation that takes one is a POST. `binary_answer` is the media type of a response that is not
    JSON.
    """

    operation: Operation
    url: str
    operation_id: str
    summary: str
    path: tuple[PathParameter, ...]
    answer: str
    query: Schema | None = None
    media_types: tuple[str, ...] = ()
    binary_answer: str | None = None
    tagged: bool = False

    @property
    def method(self) -> str:
        """The HTTP method in lower case."""
        return "post" if self.media_types else "get"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRoute(Route):
    """An operation that answers with pages."""

    query: Schema


LIST_EVENTS: Final = ListRoute(
    operation=Operation.EVENTS,
    url="/v1/repos/{owner}/{repository}/logs",
    operation_id="listEvents",
    summary="Get the events log",
    path=(OWNER, REPOSITORY),
    answer="EventPage",
    query=EventsQuery(),
)
SEARCH_TESTS: Final = ListRoute(
    operation=Operation.SEARCH,
    url="/v1/ci/{owner}/repositories/{repository_name}/search/tests",
    operation_id="searchTests",
    summary="Search tests by name",
    path=(OWNER, REPOSITORY_NAME),
    answer="TestPage",
    query=TestsQuery(),
    tagged=True,
)
GET_TEST: Final = Route(
    operation=Operation.TEST,
    url="/v1/ci/{owner}/repositories/{repository_name}/tests/{test_id}",
    operation_id="getTest",
    summary="Get detailed information about a test",
    path=(OWNER, REPOSITORY_NAME, TEST_ID),
    answer="TestDetail",
    tagged=True,
)
LIST_QUARANTINES: Final = ListRoute(
    operation=Operation.QUARANTINES,
    url="/v1/ci/{owner}/repositories/{repository}/quarantines",
    operation_id="listQuarantines",
    summary="List quarantined tests",
    path=(OWNER, REPOSITORY),
    answer="Quarantines",
    query=QuarantinesQuery(),
    tagged=True,
)
GET_QUARANTINE: Final = Route(
    operation=Operation.QUARANTINE,
    url="/v1/ci/{owner}/repositories/{repository}/quarantines/{quarantine_id}",
    operation_id="getQuarantine",
    summary="Get a quarantined test",
    path=(OWNER, REPOSITORY, QUARANTINE_ID),
    answer="Quarantine",
    tagged=True,
)
SEND_EVENTS: Final = Route(
    operation=Operation.SEND_EVENTS,
    url="/v1/repos/{owner}/{repository}/logs",
    operation_id="sendEvents",
    summary="Add events to the log, one JSON object a line",
    path=(OWNER, REPOSITORY),
    answer="EventIntake",
    media_types=EVENT_MEDIA_TYPES,
)
SEND_TRACES: Final = Route(
    operation=Operation.SEND_TRACES,
    url="/v1/ci/{owner}/repositories/{repository}/traces",
    operation_id="sendTraces",
    summary="Send test results as an OTLP trace export request",
    path=(OWNER, REPOSITORY),
    answer="Trace",
    media_types=TRACE_MEDIA_TYPES,
    binary_answer=PROTOBUF,
)
SEND_TRACES_ALIAS: Final = replace(
    SEND_TRACES, url="/v1/repos/{owner}/{repository}/ci/traces", operation_id="sendTracesAlias"
)

READ_ROUTES: Final = (LIST_EVENTS, SEARCH_TESTS, GET_TEST, LIST_QUARANTINES, GET_QUARANTINE)
WRITE_ROUTES: Final = (SEND_EVENTS, SEND_TRACES, SEND_TRACES_ALIAS)
