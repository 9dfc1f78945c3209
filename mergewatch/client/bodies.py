"""The fields of responses. A test compares them with the OpenAPI document of the service.

Times are RFC 3339 text in UTC, ids are UUIDs as text, ratios go from 0 to 1.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

HealthStatus = Literal["healthy", "flaky", "broken", "unknown"]

# The names of the series of one test, and of all tests of a repository.
TestStat = Literal[
    "success_count",
    "failure_count",
    "skipped_count",
    "flaky_count",
    "mean_duration",
    "max_duration",
]
Stat = Literal[
    "total_tests",
    "healthy_tests",
    "flaky_tests",
    "broken_tests",
    "unknown_tests",
    "quarantined_tests",
    "executions",
    "failed_executions",
    "skipped_executions",
    "flaky_verdicts",
    "mean_duration",
]


class PullUser(TypedDict):
    id: int
    login: str


class Pull(TypedDict):
    id: int
    number: int
    title: str
    user: PullUser


class TestMetrics(TypedDict):
    """The metrics of one test in one pipeline and job, over its executions there."""

    health_status: HealthStatus
    executions_count: int
    failed_executions_count: int
    failure_ratio: float
    flakiness_ratio: float
    mean_duration: float | None
    last_execution_at: str | None
    last_failure_at: str | None
    is_quarantined: bool
    latest_verdicts: list[Literal["passed", "failed", "flaky"]]


class TestIdentity(TypedDict):
    """One test in one pipeline and job; has `metrics` if the request includes them."""

    test_id: str
    test_name: str
    pipeline_name: str
    job_name: str
    metrics: NotRequired[TestMetrics]


class TestDetail(TypedDict):
    repository: str
    test_name: str
    test_id: str
    health_status: HealthStatus
    last_conclusion: Literal["passed", "failed", "skipped", "unknown"]
    failure_ratio: float
    flakiness_ratio: float
    success_ratio: float
    flaky_detection_enabled: bool
    first_failure_at: str | None
    first_failure_commit: str | None
    first_failure_pull: Pull | None
    last_failure_at: str | None
    last_success_at: str | None
    test_framework: str | None
    test_framework_version: str | None
    test_programming_language: str | None
    test_filepath: str | None
    test_function_name: str | None


class TestTransition(TypedDict):
    at: str
    pipeline_name: str
    job_name: str
    previous_health_status: HealthStatus
    health_status: HealthStatus
    exception_type: str | None
    commit: str | None
    pull_request: int | None


class Transition(TestTransition):
    test_id: str
    test_name: str


class TestTransitions(TypedDict):
    transitions: list[TestTransition]
    first_activity_at: str | None


class SeriesBar(TypedDict):
    start: str
    end: str
    value: float | None


class Series(TypedDict):
    stat: Stat
    value: float | None
    value_over_time: list[SeriesBar]


class TestTotal(TypedDict):
    """The number of rows that match a search; if it is not exact, there are more than `total`."""

    total: int
    total_is_exact: bool


class TestGroup(TypedDict):
    """Counts for one pipeline, job, directory or owner; `value` is null for tests without one."""

    value: str | None
    tests: int
    healthy: int
    flaky: int
    broken: int
    unknown: int
    executions_count: int
    failed_executions_count: int


class TestGroups(TypedDict):
    groups: list[TestGroup]


class TestSeries(TypedDict):
    """A statistic of one test, with one bar for each UTC day of the range; null if unknown."""

    stat: TestStat
    value: float | None
    value_over_time: list[SeriesBar]


class VerdictCounts(TypedDict):
    passed: int
    failed: int
    flaky: int


class Quarantine(TypedDict):
    """A quarantine; has the last four fields if the request includes details."""

    id: str
    test_name: str
    reason: str
    branch: str | None
    created_at: str
    source: Literal["manual", "auto"]
    is_recovered: bool
    test_id: NotRequired[str]
    owner: NotRequired[str | None]
    expires_at: NotRequired[str | None]
    verdicts_since: NotRequired[VerdictCounts]


class AddedQuarantine(TypedDict):
    """The id of a quarantine; has `warning` if the request looks like a mistake."""

    id: str
    warning: NotRequired[str]


class ChangeActor(TypedDict):
    type: Literal["key", "user", "rules"]
    id: str | None
    name: str


class QuarantineChange(TypedDict):
    """A change of a quarantine, with the values after it; `actor` is null for an expiry."""

    at: str
    action: Literal["added", "updated", "removed", "expired", "taken_back"]
    quarantine_id: str
    test_name: str
    branch: str | None
    reason: str
    source: Literal["manual", "auto"]
    actor: ChangeActor | None


class Event(TypedDict):
    """One row of the event log; the fields of `metadata` depend on `type`."""

    id: int
    received_at: str
    trigger: str
    repository: str
    pull_request: int | None
    base_ref: str | None
    type: str
    metadata: dict[str, Any]


class LineRefusal(TypedDict):
    """One line of a request body that was refused, with its number from 1 and its byte offset."""

    line: int
    offset: int
    reason: str


class EventIntake(TypedDict):
    """The number of events in a body that were stored or refused; lists the first refusals."""

    read: int
    written: int
    unchanged: int
    refused: int
    refusals: list[LineRefusal]


class Bar(TypedDict):
    """The number of events in the half-open range from `start` to `end`."""

    start: str
    end: str
    count: int


class TextFacet(TypedDict):
    value: str
    count: int


class NumberFacet(TypedDict):
    value: int
    count: int


class EventAggregate(TypedDict):
    """Counts of the event log; a facet has its most frequent values."""

    total: int
    interval_size_seconds: float
    histogram: list[Bar]
    by_event_type: list[TextFacet]
    by_outcome: list[TextFacet]
    by_trigger: list[TextFacet]
    by_pull_request: list[NumberFacet]


class StreamedEvent(NamedTuple):
    """An event from the stream; `id` is its position in the stream, not the id of the event."""

    id: str
    event: Event


class Execution(TypedDict):
    """One execution of a test; `duration` is in seconds."""

    id: str
    finished_at: str
    conclusion: Literal["passed", "failed", "skipped"]
    needed_retries: bool
    duration: float | None
    branch: str
    commit: str
    pipeline_name: str
    job_name: str
    run_id: str
    attempt: int
    pull_request: int | None
    job_url: str | None
    failure_id: str | None


class Failure(TypedDict):
    """A group of executions that failed alike, with the type and message of the newest one."""

    id: str
    exception_type: str | None
    exception_message: str | None
    failure_count: int
    first_failure_at: str
    last_failure_at: str


class FailureEvent(TypedDict):
    """One of the executions in a failure."""

    id: str
    failed_at: str
    exception_message: str | None
    exception_stacktrace: str | None
    branch: str
    commit: str
    pipeline_name: str
    job_name: str
    run_id: str
    attempt: int
    pull_request: int | None
    job_url: str | None


class FailureDetail(Failure):
    """A failure with its newest events, newest first."""

    latest_events: list[FailureEvent]


class Run(TypedDict):
    """One CI job with stored results, and how many of them passed, failed or were skipped."""

    run_id: str
    attempt: int
    pipeline_name: str
    job_name: str
    branch: str
    commit: str
    pull_request: int | None
    job_url: str | None
    finished_at: str
    passed: int
    failed: int
    skipped: int
    is_infrastructure_failure: bool


class TestCounts(TypedDict):
    """The number of tests of a repository by health status."""

    healthy: int
    flaky: int
    broken: int
    unknown: int


class Repository(TypedDict):
    """A repository with the health of its tests; a time is null if nothing is stored."""

    repository: str
    default_branch: str
    tests: TestCounts
    quarantined_tests: int
    last_execution_at: str | None
    last_event_at: str | None


class ReportedVerdict(TypedDict):
    """The verdict on one commit in one pipeline and job."""

    verdict: Literal["passed", "failed", "flaky"]
    commit: str
    first_execution_at: str
    last_execution_at: str


class JobHealth(TypedDict):
    """The health of a test in one pipeline and job, and the rule that decided."""

    pipeline_name: str
    job_name: str
    health_status: HealthStatus
    is_live: bool
    rule: str
    explanation: str
    executions_count: int
    failed_executions_count: int
    mean_duration: float | None
    last_execution_at: str
    verdicts: list[ReportedVerdict]


class HealthReport(TypedDict):
    """Why a test is healthy, flaky or broken: its worst pipelines and jobs, worst first.

    `owners` of its file are present if requested.
    """

    health_status: HealthStatus
    jobs: list[JobHealth]
    jobs_count: int
    owners: NotRequired[list[str]]
