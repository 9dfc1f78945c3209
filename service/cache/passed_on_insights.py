"""The reads of the insights as a wrapped store answers them."""

from __future__ import annotations

import uuid

from indexing.models.failures import Failure, FailureDetail, FailureKey, FailureQuery
from indexing.models.health_reports import HealthReport
from indexing.models.listed_executions import ExecutionKey, ExecutionQuery, ListedExecution
from indexing.models.listed_runs import ListedRun, RunKey, RunQuery
from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from indexing.store.insights import InsightReader


class PassedOnInsights(InsightReader):
    """Passes each read on to another reader."""

    def __init__(self, reader: InsightReader) -> None:
        self._insights = reader

    async def list_executions(
        self, query: ExecutionQuery, anchor: Anchor[ExecutionKey], limit: int
    ) -> Page[ListedExecution] | None:
        return await self._insights.list_executions(query, anchor, limit)

    async def list_failures(
        self, query: FailureQuery, anchor: Anchor[FailureKey], limit: int
    ) -> Page[Failure] | None:
        return await self._insights.list_failures(query, anchor, limit)

    async def get_failure(
        self, query: FailureQuery, failure_id: uuid.UUID, events: int
    ) -> FailureDetail | None:
        return await self._insights.get_failure(query, failure_id, events)

    async def list_runs(
        self, query: RunQuery, anchor: Anchor[RunKey], limit: int
    ) -> Page[ListedRun]:
        return await self._insights.list_runs(query, anchor, limit)

    async def get_health(
        self, repository: RepositoryName, test_id: uuid.UUID
    ) -> HealthReport | None:
        return await self._insights.get_health(repository, test_id)
