"""The repositories of an owner, with the health of their tests: what is asked, and the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from indexing.models.repositories import Repository
from indexing.models.tests import HealthStatus


class RepositorySort(StrEnum):
    """The orders of the list; `worst` is by broken tests, then by flaky ones, the most first."""

    NAME = "name"
    WORST = "worst"


@dataclass(frozen=True, slots=True)
class RepositoryQuery:
    """The repositories of an owner in any spelling, or that of one name; `now` is for expiry."""

    owner: str
    now: datetime
    name: str | None = None
    sort: RepositorySort = RepositorySort.NAME

    @property
    def prefix(self) -> str:
        """What the keys of all repositories of the owner begin with."""
        return f"{self.owner}/".lower()


@dataclass(frozen=True, slots=True)
class RepositoryKey:
    """The place of a repository in the list: its own name in lower case, and what it is sorted by.

    By name, both numbers are 0.
    """

    name: str
    broken: int = 0
    flaky: int = 0


@dataclass(frozen=True, slots=True)
class TestCounts:
    """How many tests of a repository have each health, as `InsightReader.count_health` counts."""

    __test__ = False

    healthy: int = 0
    flaky: int = 0
    broken: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, counts: Mapping[str, int], *, flaky_detection: bool) -> TestCounts:
        """Return the counts by health; without flaky detection, flaky tests count as healthy."""
        healthy, flaky, broken, unknown = (
            counts.get(status.value, 0)
            for status in (
                HealthStatus.HEALTHY,
                HealthStatus.FLAKY,
                HealthStatus.BROKEN,
                HealthStatus.UNKNOWN,
            )
        )
        if flaky_detection:
            return cls(healthy, flaky, broken, unknown)
        return cls(healthy + flaky, 0, broken, unknown)


@dataclass(frozen=True, slots=True)
class ListedRepository:
    """A repository with its figures; the times are those of what is stored, of every branch."""

    repository: Repository
    tests: TestCounts
    quarantined_tests: int
    last_execution_at: datetime | None
    last_event_at: datetime | None

    def key_in(self, sort: RepositorySort) -> RepositoryKey:
        """Return its place in a list of that order."""
        name = self.repository.name.name.lower()
        if sort is RepositorySort.NAME:
            return RepositoryKey(name)
        return RepositoryKey(name, self.tests.broken, self.tests.flaky)
