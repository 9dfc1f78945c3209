"""The reads of a store that the insights need; `interface` says what holds for all of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
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
from indexing.names import RepositoryName


class InsightReader(Protocol):
    """The reads behind the insights: executions, failures, runs, health reports and gauges."""

    async def count_matches(self, query: TestQuery, most: int) -> int:
        """Return how many rows `Reader.search_tests` finds, or `most` if they are more.

        Raises:
            StoreUnavailableError: counting takes too long.
        """

    async def find_next_expiry(self, repository: RepositoryName, now: datetime) -> datetime | None:
        """Return when the first of the quarantines in force at `now` expires, if one does."""

    async def list_executions(
        self, query: ExecutionQuery, anchor: Anchor[ExecutionKey], limit: int
    ) -> Page[ListedExecution] | None:
        """Return one page of a test's executions, newest first; `None` if the test is unknown.

        Executions show after `Writer.refresh_tests`.
        """

    async def list_failures(
        self, query: FailureQuery, anchor: Anchor[FailureKey], limit: int
    ) -> Page[Failure] | None:
        """Return one page of a test's failures, latest first; `None` if the test is unknown.

        Groups all failures of the test. They show after `Writer.refresh_tests`.
        """

    async def get_failure(
        self, query: FailureQuery, failure_id: uuid.UUID, events: int
    ) -> FailureDetail | None:
        """Return the failure of that id of the test, with its newest `events`, if there is one."""

    async def list_runs(
        self, query: RunQuery, anchor: Anchor[RunKey], limit: int
    ) -> Page[ListedRun]:
        """Return one page of runs, newest first; an empty page for an unknown repository.

        Results show after `Writer.refresh_tests`.
        """

    async def sum_days(self, query: DayQuery) -> Mapping[int, DaySums]:
        """Add up the executions of each UTC day that has some, on the default branch.

        Results show after `Writer.refresh_tests`. Days outlive executions: those that retention has
        reached keep their sums, whatever arrives or is removed later.
        """

    async def sum_days_of_test(
        self, query: DayQuery, test_id: uuid.UUID
    ) -> Mapping[int, DaySumsOfTest] | None:
        """Add up what a test did on each UTC day on the default branch; `None` if it is unknown.

        Days that retention has reached (`find_final_day`) are left out, as their executions are
        gone. Results show after `Writer.refresh_tests`.
        """

    async def count_flaky_verdicts(self, query: DayQuery) -> Mapping[int, int]:
        """Count the flaky verdicts that began on each UTC day, where there are some."""

    async def count_health(self, query: DayQuery) -> HealthCounts:
        """Count how the tests of a repository changed, by `indexing.health.history`.

        Filters of the query have no effect.
        """

    async def list_transitions(
        self, query: TransitionQuery, anchor: Anchor[TransitionKey], limit: int
    ) -> Page[Transition]:
        """Return one page of changes of health; an empty page for an unknown repository.

        They are those of sequences, by `indexing.health.history`, and outlive executions. With
        flaky detection off, changes between flaky and healthy are none.
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

    async def list_owned(
        self, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
    ) -> Page[ListedRepository]:
        """Return one page of the repositories of an owner; results show after `refresh_tests`.

        By name, the cost is that of the rows of the page. By `worst`, the counts of all
        repositories of the owner are sorted, and one whose counts change during a walk may appear
        twice or not at all.

        Raises:
            StoreUnavailableError: it takes too long.
        """

    async def count_tests(self, repository: RepositoryName) -> Mapping[HealthStatus, int]:
        """Count the tests of a repository by health, zeros too; takes a scan of them.

        Raises:
            StoreUnavailableError: counting takes too long.
        """

    async def get_code_owners(self, repository: RepositoryName) -> str | None:
        """Return the text of the CODEOWNERS file of a repository, if one was stored."""

    async def group_tests(
        self,
        repository: RepositoryName,
        by: Grouping,
        most: int,
        find_values: FindValues = find_directory,
    ) -> Sequence[TestGroup]:
        """Count the tests of the search in groups, worst first; takes a scan of its rows.

        `find_values` gives the groups of a file, for `Grouping.DIRECTORY` and `Grouping.OWNER`; it
        is called in a thread. Empty for an unknown repository.

        Raises:
            StoreUnavailableError: counting takes too long.
        """

    async def count_stale_tests(self) -> int:
        """Count the tests of all repositories that wait for `Writer.refresh_tests`.

        Raises:
            StoreUnavailableError: counting takes too long.
        """
