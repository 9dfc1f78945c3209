"""The part of the store that reads insights; each method delegates to its module."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

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
from indexing.store.elasticsearch import (
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
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import stored_markers
from indexing.store.elasticsearch.search import pages
from indexing.store.insights import InsightReader


class ElasticsearchInsights(InsightReader):
    """Implements `InsightReader` over Elasticsearch."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def count_matches(self, query: TestQuery, most: int) -> int:
        return await pages.count_matches(self._cluster, query, most)

    async def find_next_expiry(self, repository: RepositoryName, now: datetime) -> datetime | None:
        return await quarantines.find_next_expiry(self._cluster, repository, now)

    async def list_executions(
        self, query: ExecutionQuery, anchor: Anchor[ExecutionKey], limit: int
    ) -> Page[ListedExecution] | None:
        return await listed_executions.list_executions(self._cluster, query, anchor, limit)

    async def list_failures(
        self, query: FailureQuery, anchor: Anchor[FailureKey], limit: int
    ) -> Page[Failure] | None:
        return await failures.list_failures(self._cluster, query, anchor, limit)

    async def get_failure(
        self, query: FailureQuery, failure_id: uuid.UUID, events: int
    ) -> FailureDetail | None:
        return await failures.get_failure(self._cluster, query, failure_id, events)

    async def list_runs(
        self, query: RunQuery, anchor: Anchor[RunKey], limit: int
    ) -> Page[ListedRun]:
        return await listed_runs.list_runs(self._cluster, query, anchor, limit)

    async def sum_days(self, query: DayQuery) -> Mapping[int, DaySums]:
        return await trends.sum_days(self._cluster, query)

    async def sum_days_of_test(
        self, query: DayQuery, test_id: uuid.UUID
    ) -> Mapping[int, DaySumsOfTest] | None:
        return await trends.sum_days_of_test(self._cluster, query, test_id)

    async def count_flaky_verdicts(self, query: DayQuery) -> Mapping[int, int]:
        return await trends.count_flaky_verdicts(self._cluster, query)

    async def count_health(self, query: DayQuery) -> HealthCounts:
        return await trends.count_health(self._cluster, query)

    async def list_transitions(
        self, query: TransitionQuery, anchor: Anchor[TransitionKey], limit: int
    ) -> Page[Transition]:
        return await transitions.list_transitions(self._cluster, query, anchor, limit)

    async def list_transitions_of_test(
        self, repository: RepositoryName, test_id: uuid.UUID
    ) -> TestTransitions | None:
        return await transitions.list_of_test(self._cluster, repository, test_id)

    async def find_final_day(self) -> int:
        # Not the marks that this process remembers: what was there before may be gone already.
        return (await self._cluster.control.read()).retention.final_day

    async def get_health(
        self, repository: RepositoryName, test_id: uuid.UUID
    ) -> HealthReport | None:
        return await health_reports.get_health(self._cluster, repository, test_id)

    async def count_verdicts(
        self, repository: RepositoryName, requested: Collection[VerdictsSince]
    ) -> Mapping[VerdictsSince, VerdictCounts]:
        return await verdict_counts.count_verdicts(self._cluster, repository, requested)

    async def list_owned(
        self, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
    ) -> Page[ListedRepository]:
        return await listed_repositories.list_owned(self._cluster, query, anchor, limit)

    async def count_tests(self, repository: RepositoryName) -> Mapping[HealthStatus, int]:
        return await health_counts.count_tests(self._cluster, repository)

    async def list_filepaths(
        self, repository: RepositoryName, after: str | None, limit: int
    ) -> Sequence[str]:
        return await filepaths.list_filepaths(self._cluster, repository, after, limit)

    async def get_code_owners(self, repository: RepositoryName) -> str | None:
        return await code_owners.get_code_owners(self._cluster, repository)

    async def group_tests(
        self,
        repository: RepositoryName,
        by: Grouping,
        most: int,
        find_values: FindValues = find_directory,
    ) -> Sequence[TestGroup]:
        return await groups.group_tests(self._cluster, repository, by, most, find_values)

    async def count_stale_tests(self) -> int:
        # A refresh of tests deletes markers without making the deletion visible to searches.
        await self._cluster.connection.refresh(self._cluster.layout.stale)
        return await stored_markers.count_stale(self._cluster)
