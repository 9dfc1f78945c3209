"""Test identities, the detail of a test, and the query for a page of identities."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from indexing.models.executions import PullRequest
from indexing.names import RepositoryName


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


class IdentityKey(NamedTuple):
    """The columns of all sort orders of the search; the three names are unique together."""

    executions_count: int
    test_name: str
    pipeline_name: str
    job_name: str


class TestIdentity(NamedTuple):
    """One (test, pipeline, job) that runs on the default branch."""

    identity_id: bytes
    test_id: uuid.UUID
    key: IdentityKey


@dataclass(frozen=True, slots=True)
class TestQuery:
    """The filters and the order of a test search.

    A name has to match one of `patterns`, be among the included pipelines and jobs if there are
    any, and not be among the excluded ones. Sorted by `sort`, then by test, pipeline and job name,
    all in one direction; names compare by code point.
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


# In the model's order; columns and rules use these names.
METADATA_FIELDS: Final = tuple(field.name for field in fields(TestMetadata))


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
