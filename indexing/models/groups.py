"""Groups of tests: by pipeline, job, directory or owner. Frozen values."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from indexing.models.tests import HealthStatus

# The most groups in an answer: more than anybody reads, and the worst come first.
MOST_GROUPS: Final = 500

# The worst first. Unlike in the order of the search, unknown is last: a test is unknown only if no
# row of it is live.
WORST_FIRST: Final = (
    HealthStatus.BROKEN,
    HealthStatus.FLAKY,
    HealthStatus.HEALTHY,
    HealthStatus.UNKNOWN,
)


class Grouping(StrEnum):
    """The properties by which tests can be grouped."""

    PIPELINE = "pipeline"
    JOB = "job"
    DIRECTORY = "directory"
    OWNER = "owner"


class TestGroup(NamedTuple):
    """The tests of one pipeline, job, directory or owner; `value` is None for tests without one.

    Each test counts once, by the worst health of its rows in the group. The executions are those of
    these rows.
    """

    value: str | None
    tests: int
    healthy: int
    flaky: int
    broken: int
    unknown: int
    executions_count: int
    failed_executions_count: int
