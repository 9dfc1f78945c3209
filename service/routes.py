"""The operations of the API: their paths, parameters, request bodies and responses.

This is the only list of them. The application adds a handler to each; handlers read their
parameters by it; metrics, the OpenAPI document and the error middleware name operations by it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from indexing.otlp.requests import JSON, PROTOBUF
from service.http.accept import CSV, NDJSON
from service.http.methods import READS
from service.http.operations import Operation
from service.http.path_params import (
    FAILURE_ID,
    OWNER,
    QUARANTINE_ID,
    REPOSITORY,
    REPOSITORY_NAME,
    STAT,
    TEST_ID,
    TEST_STAT,
)
from service.http.route import ListRoute, QueryRoute, Route
from service.http.targets import UI_PREFIX
from service.schemas.bodies import QuarantineBody
from service.schemas.insight_queries import (
    ExecutionsQuery,
    FailuresQuery,
    GroupsQuery,
    HealthQuery,
    RepositoriesQuery,
    RunsQuery,
    StatsQuery,
    TransitionsQuery,
)
from service.schemas.queries import (
    EventFilters,
    EventsQuery,
    PagedQuery,
    QuarantinesQuery,
    TestsQuery,
)
from service.schemas.test_state_query import TestStatesQuery

EVENT_MEDIA_TYPES: Final = (NDJSON, "application/ndjson", "text/*", "application/octet-stream")
TRACE_MEDIA_TYPES: Final = (PROTOBUF, JSON)
# https://html.spec.whatwg.org/multipage/iana.html#text/event-stream
EVENT_STREAM_TYPE: Final = "text/event-stream"
LAST_EVENT_ID: Final = "Last-Event-ID"

LIST_EVENTS: Final = ListRoute(
    operation=Operation.EVENTS,
    url="/v1/repos/{owner}/{repository}/logs",
    operation_id="listEvents",
    summary="Get the events log",
    path=(OWNER, REPOSITORY),
    answer="EventPage",
    query=EventsQuery(),
    row_types=(NDJSON, CSV),
)
AGGREGATE_EVENTS: Final = QueryRoute(
    operation=Operation.EVENT_AGGREGATE,
    url="/v1/repos/{owner}/{repository}/logs/aggregate",
    operation_id="aggregateEvents",
    summary="Count the events log: in all, over time, and by value",
    path=(OWNER, REPOSITORY),
    answer="EventAggregate",
    query=EventFilters(),
)
STREAM_EVENTS: Final = Route(
    operation=Operation.EVENT_STREAM,
    url="/v1/repos/{owner}/{repository}/logs/stream",
    operation_id="streamEvents",
    summary="Follow the events log as events arrive",
    path=(OWNER, REPOSITORY),
    answer="Event",
    stream_type=EVENT_STREAM_TYPE,
)
SEARCH_TESTS: Final = ListRoute(
    operation=Operation.SEARCH,
    url="/v1/ci/{owner}/repositories/{repository_name}/search/tests",
    operation_id="searchTests",
    summary="Search tests by name",
    path=(OWNER, REPOSITORY_NAME),
    answer="TestPage",
    query=TestsQuery(),
    row_types=(NDJSON, CSV),
)
GET_TEST: Final = Route(
    operation=Operation.TEST,
    url="/v1/ci/{owner}/repositories/{repository_name}/tests/{test_id}",
    operation_id="getTest",
    summary="Get detailed information about a test",
    path=(OWNER, REPOSITORY_NAME, TEST_ID),
    answer="TestDetail",
)
LIST_QUARANTINES: Final = ListRoute(
    operation=Operation.QUARANTINES,
    url="/v1/ci/{owner}/repositories/{repository}/quarantines",
    operation_id="listQuarantines",
    summary="List quarantined tests",
    path=(OWNER, REPOSITORY),
    answer="Quarantines",
    query=QuarantinesQuery(),
)
GET_QUARANTINE: Final = Route(
    operation=Operation.QUARANTINE,
    url="/v1/ci/{owner}/repositories/{repository}/quarantines/{quarantine_id}",
    operation_id="getQuarantine",
    summary="Get a quarantined test",
    path=(OWNER, REPOSITORY, QUARANTINE_ID),
    answer="Quarantine",
)
LIST_TEST_STATES: Final = ListRoute(
    operation=Operation.TEST_STATES,
    url="/v1/ci/{owner}/repositories/{repository}/test-states",
    operation_id="listTestStates",
    summary="List quarantined tests, as plugins of test frameworks read them",
    path=(OWNER, REPOSITORY),
    answer="TestStatePage",
    query=TestStatesQuery(),
)
LIST_EXECUTIONS: Final = ListRoute(
    operation=Operation.EXECUTIONS,
    url="/v1/ci/{owner}/repositories/{repository}/tests/{test_id}/executions",
    operation_id="listExecutions",
    summary="List the executions of a test",
    path=(OWNER, REPOSITORY, TEST_ID),
    answer="ExecutionPage",
    query=ExecutionsQuery(),
    row_types=(NDJSON, CSV),
)
LIST_FAILURES: Final = ListRoute(
    operation=Operation.FAILURES,
    url="/v1/ci/{owner}/repositories/{repository}/tests/{test_id}/failures",
    operation_id="listFailures",
    summary="List the failures of a test, grouped by message",
    path=(OWNER, REPOSITORY, TEST_ID),
    answer="FailurePage",
    query=FailuresQuery(),
)
GET_FAILURE: Final = Route(
    operation=Operation.FAILURE,
    url="/v1/ci/{owner}/repositories/{repository}/tests/{test_id}/failures/{failure_id}",
    operation_id="getFailure",
    summary="Get a failure of a test with its newest events",
    path=(OWNER, REPOSITORY, TEST_ID, FAILURE_ID),
    answer="FailureDetail",
)
GET_TEST_HEALTH: Final = QueryRoute(
    operation=Operation.TEST_HEALTH,
    url="/v1/ci/{owner}/repositories/{repository}/tests/{test_id}/health",
    operation_id="getTestHealth",
    summary="Get why a test is healthy, flaky or broken",
    path=(OWNER, REPOSITORY, TEST_ID),
    answer="HealthReport",
    query=HealthQuery(),
)
GET_STATS: Final = QueryRoute(
    operation=Operation.STATS,
    url="/v1/ci/{owner}/repositories/{repository}/tests/stats/{stat}",
    operation_id="getStats",
    summary="Get a figure about the tests of a repository, by day",
    path=(OWNER, REPOSITORY, STAT),
    answer="Series",
    query=StatsQuery(),
)
GROUP_TESTS: Final = QueryRoute(
    operation=Operation.GROUPS,
    url="/v1/ci/{owner}/repositories/{repository}/tests/groups",
    operation_id="groupTests",
    summary="Count tests by pipeline, job, directory or owner, worst first",
    path=(OWNER, REPOSITORY),
    answer="TestGroups",
    query=GroupsQuery(),
)
GET_TEST_STATS: Final = QueryRoute(
    operation=Operation.TEST_STATS,
    url="/v1/ci/{owner}/repositories/{repository}/tests/{test_id}/stats/{stat}",
    operation_id="getTestStats",
    summary="Get a figure about a test, by day",
    path=(OWNER, REPOSITORY, TEST_ID, TEST_STAT),
    answer="TestSeries",
    query=StatsQuery(),
)
LIST_TRANSITIONS: Final = ListRoute(
    operation=Operation.TRANSITIONS,
    url="/v1/ci/{owner}/repositories/{repository}/health-transitions",
    operation_id="listHealthTransitions",
    summary="List the changes of health, newest first",
    path=(OWNER, REPOSITORY),
    answer="TransitionPage",
    query=TransitionsQuery(),
)
LIST_TEST_TRANSITIONS: Final = Route(
    operation=Operation.TEST_TRANSITIONS,
    url="/v1/ci/{owner}/repositories/{repository}/tests/{test_id}/health-transitions",
    operation_id="listTestHealthTransitions",
    summary="List the newest changes of the health of a test",
    path=(OWNER, REPOSITORY, TEST_ID),
    answer="TestTransitions",
)
LIST_RUNS: Final = ListRoute(
    operation=Operation.RUNS,
    url="/v1/ci/{owner}/repositories/{repository}/runs",
    operation_id="listRuns",
    summary="List the CI jobs whose results arrived",
    path=(OWNER, REPOSITORY),
    answer="RunPage",
    query=RunsQuery(),
)
LIST_REPOSITORIES: Final = ListRoute(
    operation=Operation.REPOSITORIES,
    url="/v1/ci/{owner}/repositories",
    operation_id="listRepositories",
    summary="List the repositories of an owner that the credential sees",
    path=(OWNER,),
    answer="RepositoryPage",
    query=RepositoriesQuery(),
)
LIST_QUARANTINE_CHANGES: Final = ListRoute(
    operation=Operation.QUARANTINE_CHANGES,
    url="/v1/ci/{owner}/repositories/{repository}/quarantines/changes",
    operation_id="listQuarantineChanges",
    summary="List the changes of quarantines, newest first",
    path=(OWNER, REPOSITORY),
    answer="QuarantineChanges",
    query=PagedQuery(),
)
ADD_QUARANTINE: Final = Route(
    operation=Operation.ADD_QUARANTINE,
    url=LIST_QUARANTINES.url,
    operation_id="addQuarantine",
    summary="Quarantine a test",
    path=LIST_QUARANTINES.path,
    answer="AddedQuarantine",
    media_types=(JSON,),
    body=QuarantineBody(),
    statuses=(200, 201),
)
REMOVE_QUARANTINE: Final = Route(
    operation=Operation.REMOVE_QUARANTINE,
    url=GET_QUARANTINE.url,
    operation_id="removeQuarantine",
    summary="End a quarantine",
    path=GET_QUARANTINE.path,
    answer=None,
    verb="delete",
    statuses=(204,),
)
SEND_EVENTS: Final = Route(
    operation=Operation.SEND_EVENTS,
    url="/v1/repos/{owner}/{repository}/logs",
    operation_id="sendEvents",
    summary="Add events to the log, one JSON object per line",
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

# A path is matched in this order, so a fixed word comes before an id.
READ_ROUTES: Final = (
    LIST_EVENTS,
    AGGREGATE_EVENTS,
    STREAM_EVENTS,
    SEARCH_TESTS,
    GROUP_TESTS,
    GET_TEST,
    LIST_QUARANTINES,
    LIST_QUARANTINE_CHANGES,
    GET_QUARANTINE,
    LIST_TEST_STATES,
    GET_STATS,
    GET_TEST_STATS,
    LIST_TRANSITIONS,
    LIST_TEST_TRANSITIONS,
    LIST_EXECUTIONS,
    LIST_FAILURES,
    GET_FAILURE,
    LIST_RUNS,
    GET_TEST_HEALTH,
    LIST_REPOSITORIES,
)
# Changes that people make with a key of their own.
CHANGE_ROUTES: Final = (ADD_QUARANTINE, REMOVE_QUARANTINE)
# Uploads by machines, if the operator turns ingest on.
INGEST_ROUTES: Final = (SEND_EVENTS, SEND_TRACES, SEND_TRACES_ALIAS)

_OTHER: Final = "other"
# All pages of the dashboard together.
_UI: Final = "dashboard"
_BY_METHOD: Final = {
    method: [
        (route.path_expression, route.operation.value)
        for route in (*READ_ROUTES, *CHANGE_ROUTES, *INGEST_ROUTES)
        if route.method == method
    ]
    for method in ("get", "post", "delete")
}


def name_operation(method: str, raw_path: str) -> str:
    """Return the operation of a request by its method and raw path, or `dashboard` or `other`."""
    path = raw_path.partition("?")[0]
    for expression, name in _BY_METHOD.get("get" if method in READS else method.lower(), ()):
        if expression.fullmatch(path):
            return name
    return _UI if path.startswith(UI_PREFIX) else _OTHER
