"""The repositories of an owner with the health of their tests, and the query for a page of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from indexing.models.repositories import Repository
from indexing.models.tests import HealthStatus


class RepositorySort(StrEnum):
    """The sort orders of the list; `worst` is by broken, then flaky tests, the most first."""

    NAME = "name"
    WORST = "worst"


@dataclass(frozen=True, slots=True)
class RepositoryQuery:
    """The query for the repositories of an owner, or for one of them; case does not matter.

    `now` decides which quarantines have expired.
    """

    owner: str
    now: datetime
    name: str | None = None
    sort: RepositorySort = RepositorySort.NAME

    @property
    def prefix(self) -> str:
        """The prefix of the keys of all repositories of the owner."""
        return f"{self.owner}/".lower()


@dataclass(frozen=True, slots=True)
class RepositoryKey:
    """The sort key of a repository: its own name in lower case, and its test counts.

    In the order by name, both counts are 0.
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
    """A repository with its figures; the times are of the newest stored data, on any branch."""

    repository: Repository
    tests: TestCounts
    quarantined_tests: int
    last_execution_at: datetime | None
    last_event_at: datetime | None

    def key_in(self, sort: RepositorySort) -> RepositoryKey:
        """Return its sort key in a list with that order."""
        name = self.repository.name.name.lower()
        if sort is RepositorySort.NAME:
            return RepositoryKey(name)
        return RepositoryKey(name, self.tests.broken, self.tests.flaky)
