"""The reads of a store that the insights need; `interface` has the guarantees of all reads."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from indexing.groups import FindValues, find_directory
from indexing.models.failures import Failure, FailureDetail, FailureKey, FailureQuery
from indexing.models.groups import Grouping, TestGroup
from indexing.models.health_reports import HealthReport
from indexing.models.listed_executions import ExecutionKey, ExecutionQuery, ListedExecution
from indexing.models.listed_repositories import (
    ListedRepository,
    RepositoryKey,
    RepositoryQuery,
)
from indexing.models.listed_runs import ListedRun, RunKey, RunQuery
from indexing.models.paging import Anchor, Page
from indexing.models.tests import HealthStatus, TestQuery
from indexing.models.transitions import (
    TestTransitions,
    Transition,
    TransitionKey,
    TransitionQuery,
)
from indexing.models.trends import DayQuery, DaySums, DaySumsOfTest, HealthCounts
from indexing.models.verdict_counts import VerdictCounts, VerdictsSince
from indexing.names import RepositoryName


class InsightReader(Protocol):
    """The reads behind the insights: executions, failures, runs, health reports and gauges."""

    async def count_matches(self, query: TestQuery, most: int) -> int:
        """Return how many rows `Reader.search_tests` finds, or `most` if they are more.

        Raises:
            StoreUnavailableError: counting takes too long.
        """

    async def find_next_expiry(self, repository: RepositoryName, now: datetime) -> datetime | None:
        """Return when the next quarantine expires of those in force at `now`; `None` if none do."""

    async def list_executions(
        self, query: ExecutionQuery, anchor: Anchor[ExecutionKey], limit: int
    ) -> Page[ListedExecution] | None:
        """Return one page of a test's executions, newest first; `None` if the test is unknown.

        New executions appear after `Writer.refresh_tests`.
        """

    async def list_failures(
        self, query: FailureQuery, anchor: Anchor[FailureKey], limit: int
    ) -> Page[Failure] | None:
        """Return one page of a test's failures, latest first; `None` if the test is unknown.

        Groups all failures of the test. New ones appear after `Writer.refresh_tests`.
        """

    async def get_failure(
        self, query: FailureQuery, failure_id: uuid.UUID, events: int
    ) -> FailureDetail | None:
        """Return that failure with its newest `events` executions; `None` if it is unknown."""

    async def list_runs(
        self, query: RunQuery, anchor: Anchor[RunKey], limit: int
    ) -> Page[ListedRun]:
        """Return one page of runs, newest first; an empty page for an unknown repository.

        New results appear after `Writer.refresh_tests`.
        """

    async def sum_days(self, query: DayQuery) -> Mapping[int, DaySums]:
        """Add up the executions on the default branch by UTC day; empty days are left out.

        New results appear after `Writer.refresh_tests`. The sums outlive executions: those of days
        that retention has reached stay as they are, whatever arrives or is removed later.
        """

    async def sum_days_of_test(
        self, query: DayQuery, test_id: uuid.UUID
    ) -> Mapping[int, DaySumsOfTest] | None:
        """Add up the results of a test on the default branch by UTC day; `None` if it is unknown.

        Days that retention has reached (`find_final_day`) are left out, as their executions are
        gone. New results appear after `Writer.refresh_tests`.
        """

    async def count_flaky_verdicts(self, query: DayQuery) -> Mapping[int, int]:
        """Count the flaky verdicts that began on each UTC day; days without any are left out."""

    async def count_health(self, query: DayQuery) -> HealthCounts:
        """Count the tests of each health, and their changes by day (`indexing.health.history`).

        Filters of the query have no effect.
        """

    async def list_transitions(
        self, query: TransitionQuery, anchor: Anchor[TransitionKey], limit: int
    ) -> Page[Transition]:
        """Return one page of changes of health; an empty page for an unknown repository.

        These are the changes of sequences (`indexing.health.history`); they outlive executions.
        With flaky detection off, changes between flaky and healthy are left out.
        """

    async def list_transitions_of_test(
        self, repository: RepositoryName, test_id: uuid.UUID
    ) -> TestTransitions | None:
        """Return the newest transitions of a test; `None` if it is unknown."""

    async def find_final_day(self) -> int:
        """Return the newest UTC day that retention has reached, counted from 1970."""

    async def get_health(
        self, repository: RepositoryName, test_id: uuid.UUID
    ) -> HealthReport | None:
        """Return why the test is healthy, flaky or broken; `None` if it is unknown."""

    async def count_verdicts(
        self, repository: RepositoryName, requested: Collection[VerdictsSince]
    ) -> Mapping[VerdictsSince, VerdictCounts]:
        """Count the verdicts of each test since a day, by `indexing.health.verdict_counts`.

        Those of the default branch; none for an unknown test. Results show after
        `Writer.refresh_tests`. The cost is that of reading all roll-ups of each test.
        """

    async def list_owned(
        self, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
    ) -> Page[ListedRepository]:
        """Return one page of the repositories of an owner; new results count after a refresh.

        Sorted by name, the cost depends only on the page. Sorted by `worst`, the counts of all
        repositories of the owner are read, and a repository whose counts change between two pages
        may appear twice or not at all.

        Raises:
            StoreUnavailableError: it takes too long.
        """

    async def count_tests(self, repository: RepositoryName) -> Mapping[HealthStatus, int]:
        """Count the tests of a repository by health, including zeros; scans all tests.

        Raises:
            StoreUnavailableError: counting takes too long.
        """

    async def list_filepaths(
        self, repository: RepositoryName, after: str | None, limit: int
    ) -> Sequence[str]:
        """Return the next `limit` files of tests, each once, sorted by code point.

        They are the files of all tests that the search finds, and perhaps of a few others. Starts
        behind the file `after`. Empty for an unknown repository.

        Raises:
            StoreUnavailableError: reading takes too long.
        """

    async def get_code_owners(self, repository: RepositoryName) -> str | None:
        """Return the text of a repository's CODEOWNERS file; `None` if none was stored."""

    async def group_tests(
        self,
        repository: RepositoryName,
        by: Grouping,
        most: int,
        find_values: FindValues = find_directory,
    ) -> Sequence[TestGroup]:
        """Count the tests of the search in groups, worst first; scans all rows of the search.

        `find_values` returns the groups of a file, for `Grouping.DIRECTORY` and `Grouping.OWNER`;
        it is called in a thread. Empty for an unknown repository.

        Raises:
            StoreUnavailableError: counting takes too long.
        """

    async def count_stale_tests(self) -> int:
        """Count the tests of all repositories that wait for `Writer.refresh_tests`.

        Raises:
            StoreUnavailableError: counting takes too long.
        """
