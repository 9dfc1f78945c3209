"""The part of the embedded store that reads insights; each method delegates to its module."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

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
from indexing.store.insights import InsightReader
from indexing.store.sqlite import (
    code_owners,
    failures,
    filepaths,
    groups,
    health_counts,
    health_reports,
    listed_executions,
    listed_repositories,
    listed_runs,
    quarantines,
    transitions,
    trends,
    verdict_counts,
)
from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.rollups import read_final_day
from indexing.store.sqlite.search.strategy import choose_counts


class SqliteInsights(InsightReader):
    """Implements `InsightReader` over one SQLite file."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def count_matches(self, query: TestQuery, most: int) -> int:
        plans = choose_counts(query, most)
        if plans.is_slow:
            return await self._connections.read_slowly(plans.last)
        return await self._connections.read_by_plans(plans.plans, plans.last)

    async def find_next_expiry(self, repository: RepositoryName, now: datetime) -> datetime | None:
        return await self._connections.read(
            partial(quarantines.find_next_expiry, repository=repository, now=now)
        )

    async def list_executions(
        self, query: ExecutionQuery, anchor: Anchor[ExecutionKey], limit: int
    ) -> Page[ListedExecution] | None:
        return await self._connections.read(
            partial(listed_executions.list_executions, query=query, anchor=anchor, limit=limit)
        )

    async def list_failures(
        self, query: FailureQuery, anchor: Anchor[FailureKey], limit: int
    ) -> Page[Failure] | None:
        return await self._connections.read(
            partial(failures.list_failures, query=query, anchor=anchor, limit=limit)
        )

    async def get_failure(
        self, query: FailureQuery, failure_id: uuid.UUID, events: int
    ) -> FailureDetail | None:
        return await self._connections.read(
            partial(failures.get_failure, query=query, failure_id=failure_id, events=events)
        )

    async def list_runs(
        self, query: RunQuery, anchor: Anchor[RunKey], limit: int
    ) -> Page[ListedRun]:
        return await self._connections.read(
            partial(listed_runs.list_runs, query=query, anchor=anchor, limit=limit)
        )

    async def sum_days(self, query: DayQuery) -> Mapping[int, DaySums]:
        return await self._connections.read(partial(trends.sum_days, query=query))

    async def sum_days_of_test(
        self, query: DayQuery, test_id: uuid.UUID
    ) -> Mapping[int, DaySumsOfTest] | None:
        return await self._connections.read(
            partial(trends.sum_days_of_test, query=query, test_id=test_id)
        )

    async def count_flaky_verdicts(self, query: DayQuery) -> Mapping[int, int]:
        return await self._connections.read(partial(trends.count_flaky_verdicts, query=query))

    async def count_health(self, query: DayQuery) -> HealthCounts:
        return await self._connections.read(partial(trends.count_health, query=query))

    async def list_transitions(
        self, query: TransitionQuery, anchor: Anchor[TransitionKey], limit: int
    ) -> Page[Transition]:
        return await self._connections.read(
            partial(transitions.list_transitions, query=query, anchor=anchor, limit=limit)
        )

    async def list_transitions_of_test(
        self, repository: RepositoryName, test_id: uuid.UUID
    ) -> TestTransitions | None:
        return await self._connections.read(
            partial(transitions.list_of_test, repository=repository, test_id=test_id)
        )

    async def find_final_day(self) -> int:
        return await self._connections.read(read_final_day)

    async def get_health(
        self, repository: RepositoryName, test_id: uuid.UUID
    ) -> HealthReport | None:
        return await self._connections.read(
            partial(health_reports.get_health, repository=repository, test_id=test_id)
        )

    async def count_verdicts(
        self, repository: RepositoryName, requested: Collection[VerdictsSince]
    ) -> Mapping[VerdictsSince, VerdictCounts]:
        return await self._connections.read(
            partial(verdict_counts.count_verdicts, repository=repository, requested=requested)
        )

    async def list_owned(
        self, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
    ) -> Page[ListedRepository]:
        return await self._connections.read(
            partial(listed_repositories.list_owned, query=query, anchor=anchor, limit=limit)
        )

    async def count_tests(self, repository: RepositoryName) -> Mapping[HealthStatus, int]:
        return await self._connections.read_slowly(
            partial(health_counts.count_tests, repository=repository)
        )

    async def list_filepaths(
        self, repository: RepositoryName, after: str | None, limit: int
    ) -> Sequence[str]:
        return await self._connections.read_slowly(
            partial(filepaths.list_filepaths, repository=repository, after=after, limit=limit)
        )

    async def get_code_owners(self, repository: RepositoryName) -> str | None:
        return await self._connections.read(
            partial(code_owners.get_code_owners, repository=repository)
        )

    async def group_tests(
        self,
        repository: RepositoryName,
        by: Grouping,
        most: int,
        find_values: FindValues = find_directory,
    ) -> Sequence[TestGroup]:
        return await self._connections.read_slowly(
            partial(
                groups.group_tests,
                repository=repository,
                by=by,
                most=most,
                find_values=find_values,
            )
        )

    async def count_stale_tests(self) -> int:
        return await self._connections.read_slowly(health_counts.count_stale_tests)
