"""The parameters of lists. A test compares them with the OpenAPI document of the service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Required, TypedDict
from uuid import UUID

from mergewatch.client.bodies import HealthStatus

# One value, or any of several.
OneOrMore = str | Sequence[str]

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
    """The parameter of every list: the maximum number of rows per request."""

    per_page: int


class RepositoryFilters(PageSize, total=False):
    """Filter and order of repositories; by default all, sorted by name.

    `repository` is required with a token of the code host.
    """

    repository: str
    sort: Literal["name", "worst"]


class TransitionFilters(PageSize, total=False):
    """The range is the last 30 days by default; `health_status` is the status after the change."""

    health_status: HealthStatus | Sequence[HealthStatus]
    start: datetime | str
    end: datetime | str


class StatsFilters(TypedDict, total=False):
    """The range is the last 30 days by default; pipelines and jobs filter series of executions."""

    start: datetime | str
    end: datetime | str
    pipeline_name: OneOrMore
    job_name: OneOrMore


class HealthOptions(TypedDict, total=False):
    """The optional parts of a report on the health of a test."""

    include: Literal["owners"] | Sequence[Literal["owners"]]


class GroupFilters(TypedDict, total=False):
    """The field by which tests are grouped."""

    by: Required[Grouping]


class QuarantineOptions(TypedDict, total=False):
    """Optional fields of a quarantine; `branch` may be a glob, and defaults to every branch."""

    branch: str
    owner: str
    expires_at: datetime | str


class EventSelection(TypedDict, total=False):
    """The range is the last day by default. Several values of one parameter are joined by OR."""

    pull_request: int | Sequence[int]
    base_ref: str
    event_type: OneOrMore
    trigger: OneOrMore
    outcome: Outcome | Sequence[Outcome]
    not_event_type: OneOrMore
    not_trigger: OneOrMore
    not_outcome: Outcome | Sequence[Outcome]
    not_pull_request: int | Sequence[int]
    received_from: datetime | str
    received_to: datetime | str


class EventFilters(EventSelection, PageSize, total=False):
    """Filters of events, with a page size."""


class TestSelection(TypedDict, total=False):
    """Test names and files are globs: `*` matches any text, `?` matches one character.

    An `owner` is written as in the CODEOWNERS file; `none` selects tests without an owner.
    """

    sort: TestSort
    direction: Direction
    pipeline_name: OneOrMore
    pipeline_name_exclude: OneOrMore
    job_name: OneOrMore
    job_name_exclude: OneOrMore
    test_name_exclude: OneOrMore
    test_filepath: OneOrMore
    owner: OneOrMore
    quarantined: bool
    health_status: HealthStatus | Sequence[HealthStatus]
    health_status_exclude: HealthStatus | Sequence[HealthStatus]
    include: Include | Sequence[Include]


class TestFilters(TestSelection, PageSize, total=False):
    """Filters of tests, with a page size."""


class ExecutionSelection(TypedDict, total=False):
    """The range is the last 30 days by default."""

    branch: OneOrMore
    commit: OneOrMore
    pipeline_name: OneOrMore
    job_name: OneOrMore
    conclusion: Conclusion | Sequence[Conclusion]
    start: datetime | str
    end: datetime | str


class ExecutionFilters(ExecutionSelection, PageSize, total=False):
    """Filters of executions, with a page size."""


class FailureFilters(PageSize, total=False):
    """Filters of failures; several branches are joined by OR."""

    branch: OneOrMore


class RunFilters(PageSize, total=False):
    """Filters of CI jobs; several values of one parameter are joined by OR."""

    commit: OneOrMore
    branch: OneOrMore
    pull_request: int | Sequence[int]
    pipeline_name: OneOrMore
    job_name: OneOrMore


class QuarantineFilters(PageSize, total=False):
    """Filters of quarantines.

    `branch` selects the quarantines that apply to that branch: its own, those with a matching
    pattern, and those for every branch.
    """

    branch: str
    test_id: UUID | str
    source: Literal["manual", "auto"]
    include: Literal["details"] | Sequence[Literal["details"]]
