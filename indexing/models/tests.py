"""Test identities with their metrics, the detail of a test, and the query for identities."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from indexing.models.executions import PullRequest
from indexing.models.file_selections import FileSelection
from indexing.names import RepositoryName
from indexing.timestamps import EPOCH


class HealthStatus(StrEnum):
    """How reliable a test's results on the default branch are."""

    HEALTHY = "healthy"
    FLAKY = "flaky"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class TestSort(StrEnum):
    """The orders of the test search."""

    __test__ = False  # not a test class, whatever its name begins with

    EXECUTIONS_COUNT = "executions_count"
    TEST_NAME = "test_name"
    PIPELINE_NAME = "pipeline_name"
    JOB_NAME = "job_name"
    HEALTH_STATUS = "health_status"
    FAILED_EXECUTIONS_COUNT = "failed_executions_count"
    FAILURE_RATIO = "failure_ratio"
    FLAKINESS_RATIO = "flakiness_ratio"
    MEAN_DURATION = "mean_duration"
    LAST_FAILURE_AT = "last_failure_at"


# The sort orders by a value other than the names and `executions_count`.
VALUE_SORTS: Final = frozenset(
    {
        TestSort.HEALTH_STATUS,
        TestSort.FAILED_EXECUTIONS_COUNT,
        TestSort.FAILURE_RATIO,
        TestSort.FLAKINESS_RATIO,
        TestSort.MEAN_DURATION,
        TestSort.LAST_FAILURE_AT,
    }
)

# The order by health: the status that needs the most attention has the highest number.
HEALTH_NUMBERS: Final = {
    HealthStatus.HEALTHY: 0,
    HealthStatus.UNKNOWN: 1,
    HealthStatus.FLAKY: 2,
    HealthStatus.BROKEN: 3,
}


def number_statuses(statuses: Iterable[HealthStatus]) -> tuple[int, ...]:
    """Return the numbers of these statuses, from the lowest to the highest."""
    return tuple(sorted(HEALTH_NUMBERS[status] for status in statuses))


# The value in place of a missing duration or time; it is less than all others.
NO_VALUE: Final = -(2**62)


class IdentityKey(NamedTuple):
    """The columns of the sort orders of the search; the three names are unique together.

    In the orders of `VALUE_SORTS`, and only there, `value` is what the row is sorted by: a number
    of `HEALTH_NUMBERS`, a count, a ratio, or microseconds (`NO_VALUE` for none).
    """

    executions_count: int
    test_name: str
    pipeline_name: str
    job_name: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class TestMetrics:
    """The metrics of one sequence, by its executions in the window of its test.

    `health_status` is unknown if the sequence is not live. Counts and times include all executions,
    even skipped ones and infrastructure failures; ratios leave both out and are 0 without evidence.
    `mean_duration` is in seconds. `latest_verdicts` are those that the rules use, oldest first:
    passed, failed or flaky. `is_quarantined` says whether a quarantine in force covers the test on
    the default branch; it depends on the time, so it is computed for each read.
    """

    __test__ = False

    health_status: HealthStatus
    executions_count: int
    failed_executions_count: int = 0
    failure_ratio: float = 0.0
    flakiness_ratio: float = 0.0
    mean_duration: float | None = None
    last_execution_at: datetime | None = None
    last_failure_at: datetime | None = None
    latest_verdicts: tuple[str, ...] = ()
    is_quarantined: bool = False


class TestIdentity(NamedTuple):
    """One (test, pipeline, job) that runs on the default branch; with metrics if requested."""

    test_id: uuid.UUID
    key: IdentityKey
    metrics: TestMetrics | None = None


@dataclass(frozen=True, slots=True)
class TestQuery:
    """The filters and the order of a test search.

    A name has to match one of `patterns` and none of `patterns_excluded`. Pipeline and job have to
    be among the included ones if there are any, and not among the excluded ones. The health status
    has to be one of `health` unless that is `None`.

    The file of the test has to match one of `filepaths` if there are any, and to be one of `files`
    if these are given. They are the files of `owners`, which stores ignore. `quarantined` selects
    the tests that are quarantined on the default branch at `now`, or the others. With
    `with_metrics`, rows have metrics; `now` decides their `is_quarantined` too.

    Sorted by `sort`, then by test, pipeline and job name, all in one direction; names compare by
    code point.
    """

    __test__ = False

    repository: RepositoryName
    patterns: tuple[str, ...]
    sort: TestSort = TestSort.EXECUTIONS_COUNT
    descending: bool = True
    pipelines: tuple[str, ...] = ()
    pipelines_excluded: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    jobs_excluded: tuple[str, ...] = ()
    patterns_excluded: tuple[str, ...] = ()
    filepaths: tuple[str, ...] = ()
    health: tuple[HealthStatus, ...] | None = None
    quarantined: bool | None = None
    owners: tuple[str, ...] = ()
    files: FileSelection | None = None
    with_metrics: bool = False
    now: datetime = EPOCH


@dataclass(frozen=True, slots=True)
class TestHealth:
    """The health of one test by its executions on the default branch; ratios are 0 to 1."""

    __test__ = False

    health_status: HealthStatus = HealthStatus.UNKNOWN
    last_conclusion: str = "unknown"
    failure_ratio: float = 0.0
    flakiness_ratio: float = 0.0
    success_ratio: float = 0.0
    first_failure_at: datetime | None = None
    first_failure_commit: str | None = None
    first_failure_pull: PullRequest | None = None
    last_failure_at: datetime | None = None
    last_success_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TestMetadata:
    """Metadata of the test from its newest executions on the default branch."""

    __test__ = False

    framework: str | None = None
    framework_version: str | None = None
    language: str | None = None
    filepath: str | None = None
    function_name: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TestMetadata:
        """Return the metadata in a record, which may lack fields and have others.

        A document may be of a release that has other fields.
        """
        return cls(**{field: record.get(field) for field in METADATA_FIELDS})


# In the model's order; columns and rules use these names.
METADATA_FIELDS: Final = tuple(field.name for field in fields(TestMetadata))
# Returns the values of a `TestMetadata` in that order.
metadata_values: Final = attrgetter(*METADATA_FIELDS)


@dataclass(frozen=True, slots=True)
class TestDetail:
    """One test of a repository, across all its pipelines and jobs."""

    __test__ = False

    repository: RepositoryName
    test_name: str
    test_id: uuid.UUID
    flaky_detection_enabled: bool
    health: TestHealth
    metadata: TestMetadata
