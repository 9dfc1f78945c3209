"""The parameters of lists. A test compares them with the OpenAPI document of the service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Required, TypedDict
from uuid import UUID

HealthStatus = Literal["healthy", "flaky", "broken", "unknown"]
Outcome = Literal["success", "failure", "pending", "neutral"]
Conclusion = Literal["passed", "failed", "skipped"]
Direction = Literal["asc", "desc"]
Include = Literal["metrics", "total"]
Grouping = Literal["pipeline", "job", "directory", "owner"]
TestSort = Literal[
    "executions_count",
    "test_name",
    "pipeline_name",
    "job_name",
    "health_status",
    "failed_executions_count",
    "failure_ratio",
    "flakiness_ratio",
    "mean_duration",
    "last_failure_at",
]


class PageSize(TypedDict, total=False):
    """The parameter of every list: the number of rows that one request returns."""

    per_page: int


class RepositoryFilters(PageSize, total=False):
    """All of them by name if left out; a token of the code host has to name one."""

    repository: str
    sort: Literal["name", "worst"]


class TransitionFilters(PageSize, total=False):
    """Without a range, the newest 30 days; `health_status` is what the health changed into."""

    health_status: HealthStatus | Sequence[HealthStatus]
    start: datetime | str
    end: datetime | str


class StatsFilters(TypedDict, total=False):
    """Without a range, the newest 30 days; pipelines and jobs are for series of executions."""

    start: datetime | str
    end: datetime | str
    pipeline_name: str | Sequence[str]
    job_name: str | Sequence[str]


class GroupFilters(TypedDict, total=False):
    """What the tests are grouped by."""

    by: Required[Grouping]


class QuarantineOptions(TypedDict, total=False):
    """What else a quarantine may have; `branch` may be a glob, and is every branch if left out."""

    branch: str
    owner: str
    expires_at: datetime | str


class EventSelection(TypedDict, total=False):
    """Without a range, the newest day. Several values of one parameter mean any of them."""

    pull_request: int | Sequence[int]
    base_ref: str
    event_type: str | Sequence[str]
    trigger: str | Sequence[str]
    outcome: Outcome | Sequence[Outcome]
    not_event_type: str | Sequence[str]
    not_trigger: str | Sequence[str]
    not_outcome: Outcome | Sequence[Outcome]
    not_pull_request: int | Sequence[int]
    received_from: datetime | str
    received_to: datetime | str


class EventFilters(EventSelection, PageSize, total=False):
    """Events, page by page."""


class TestSelection(TypedDict, total=False):
    """Names and files take globs: `*` is any text, `?` one character."""

    sort: TestSort
    direction: Direction
    pipeline_name: str | Sequence[str]
    pipeline_name_exclude: str | Sequence[str]
    job_name: str | Sequence[str]
    job_name_exclude: str | Sequence[str]
    test_name_exclude: str | Sequence[str]
    test_filepath: str | Sequence[str]
    quarantined: bool
    health_status: HealthStatus | Sequence[HealthStatus]
    health_status_exclude: HealthStatus | Sequence[HealthStatus]
    include: Include | Sequence[Include]


class TestFilters(TestSelection, PageSize, total=False):
    """Tests, page by page."""


class ExecutionSelection(TypedDict, total=False):
    """Without a range, the newest 30 days."""

    branch: str | Sequence[str]
    commit: str | Sequence[str]
    pipeline_name: str | Sequence[str]
    job_name: str | Sequence[str]
    conclusion: Conclusion | Sequence[Conclusion]
    start: datetime | str
    end: datetime | str


class ExecutionFilters(ExecutionSelection, PageSize, total=False):
    """Executions, page by page."""


class FailureFilters(PageSize, total=False):
    """Failures on any of these branches."""

    branch: str | Sequence[str]


class RunFilters(PageSize, total=False):
    """Several values of one parameter mean any of them."""

    commit: str | Sequence[str]
    branch: str | Sequence[str]
    pull_request: int | Sequence[int]
    pipeline_name: str | Sequence[str]
    job_name: str | Sequence[str]


class QuarantineFilters(TypedDict, total=False):
    """`branch` selects what applies to that branch: the branch itself, patterns, all branches."""

    branch: str
    test_id: UUID | str
    source: Literal["manual", "auto"]
    per_page: int
