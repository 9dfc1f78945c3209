"""Daily series of a repository: the query, and the sums that stores return. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from indexing.models.executions import MAX_DURATION
from indexing.names import RepositoryName

# The most that the durations of a job's results of one test on one day add up to, in microseconds:
# 285 years. Implausible durations of one tenant must not exceed what the stores can hold. Sums of
# positive numbers that stop here do not depend on their order, and stay exact as floats.
MAX_TOTAL_DURATION: Final = 2**53


def duration_of(seconds: float | None) -> int | None:
    """Return a duration in microseconds; None if it is missing or not plausible."""
    if seconds is None or not 0 <= seconds <= MAX_DURATION:
        return None
    return round(seconds * 1_000_000)


class Stat(StrEnum):
    """The values of a series of a repository; the first six are as of the end of each day."""

    TOTAL_TESTS = "total_tests"
    HEALTHY_TESTS = "healthy_tests"
    FLAKY_TESTS = "flaky_tests"
    BROKEN_TESTS = "broken_tests"
    UNKNOWN_TESTS = "unknown_tests"
    QUARANTINED_TESTS = "quarantined_tests"
    EXECUTIONS = "executions"
    FAILED_EXECUTIONS = "failed_executions"
    SKIPPED_EXECUTIONS = "skipped_executions"
    FLAKY_VERDICTS = "flaky_verdicts"
    MEAN_DURATION = "mean_duration"


class TestStat(StrEnum):
    """The values of a series of one test."""

    __test__ = False

    SUCCESS_COUNT = "success_count"
    FAILURE_COUNT = "failure_count"
    SKIPPED_COUNT = "skipped_count"
    FLAKY_COUNT = "flaky_count"
    MEAN_DURATION = "mean_duration"
    MAX_DURATION = "max_duration"


class DaySumsOfTest(NamedTuple):
    """The executions of a test on one UTC day on the default branch; durations in microseconds.

    `flaky_verdicts` are those that began on that day.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    flaky_verdicts: int = 0
    durations: int = 0
    total_duration: int = 0
    longest_duration: int = 0

    def plus(self, other: DaySumsOfTest) -> DaySumsOfTest:
        added = DaySumsOfTest(*(mine + its for mine, its in zip(self, other, strict=True)))
        longest = max(self.longest_duration, other.longest_duration)
        return added._replace(longest_duration=longest)


class DaySums(NamedTuple):
    """The executions of one UTC day on the default branch; durations are in microseconds."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    durations: int = 0
    total_duration: float = 0.0

    @property
    def executions(self) -> int:
        return self.passed + self.failed + self.skipped

    def plus(self, other: DaySums) -> DaySums:
        return DaySums(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.durations + other.durations,
            self.total_duration + other.total_duration,
        )


@dataclass(frozen=True, slots=True)
class DayQuery:
    """A range of days of a repository, counted from 1970; both ends are included.

    Empty tuples do not filter.
    """

    repository: RepositoryName
    first_day: int
    last_day: int
    pipelines: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthCounts:
    """The numbers of tests of a repository by health, and their changes by day.

    `before` has the number of tests of each health before the first day. `changes` has, for each
    day, by how much each number changed.
    """

    before: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
