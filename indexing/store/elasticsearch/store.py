"""Implements the store interfaces over Elasticsearch; each method delegates to its module."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from indexing.models.arrivals import ArrivalKey, Arrivals
from indexing.models.changes import Changed
from indexing.models.event_aggregates import Bars, EventAggregate
from indexing.models.events import EventKey, EventQuery, EventRow, StoredEvent
from indexing.models.executions import Execution, Run
from indexing.models.keys import ApplicationKey
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    UNKNOWN,
    Actor,
    AddedQuarantine,
    Quarantine,
    QuarantineChange,
    QuarantineChangeKey,
    QuarantineKey,
    QuarantineQuery,
    QuarantineRequest,
)
from indexing.models.repositories import Repository, RepositoryChange
from indexing.models.selections import ExecutionSelection, SelectionExtent
from indexing.models.tests import IdentityKey, TestDetail, TestIdentity, TestQuery
from indexing.names import RepositoryName
from indexing.pruning import PruneRun
from indexing.store.elasticsearch import (
    arrivals,
    code_owners,
    event_counts,
    event_day_refresh,
    events,
    executions,
    keys,
    maintenance,
    quarantine_changes,
    quarantines,
    removal,
    repositories,
    repository_settings,
    tests,
)
from indexing.store.elasticsearch.client.combined_reads import CombinedReads
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import refresh
from indexing.store.elasticsearch.derived.row_filling import fill_rows
from indexing.store.elasticsearch.event_whole_days import RememberedDays
from indexing.store.elasticsearch.event_writing import EventWriter
from indexing.store.elasticsearch.indices import prune_runs
from indexing.store.elasticsearch.indices.cluster_settings import warn_of_settings
from indexing.store.elasticsearch.indices.control import Control
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.refresh_lease import RefreshLeases
from indexing.store.elasticsearch.indices.setup import ensure_layout
from indexing.store.elasticsearch.indices.time_slices import TimeSlices
from indexing.store.elasticsearch.insights import ElasticsearchInsights
from indexing.store.elasticsearch.notifications import ElasticsearchNotifications
from indexing.store.elasticsearch.search import pages
from indexing.store.interface import (
    EventOutcome,
    ExecutionCount,
    ForgetCount,
    PruneCount,
    Steps,
    Store,
    StoreIdentity,
    StoreStatus,
)
from indexing.yielding import GoesOn, always


class ElasticsearchStore(ElasticsearchInsights, ElasticsearchNotifications, Store):
    """The indices of one prefix in one cluster; any number of processes may use them at once."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._events = EventWriter(cluster)
        self._counted_days = RememberedDays()

    @classmethod
    async def open(
        cls, urls: Sequence[str], *, prefix: str, api_key: str | None = None
    ) -> ElasticsearchStore:
        """Open the indices; create those that are missing.

        Raises:
            StoreUnavailableError: no node of the cluster answers.
            StoreVersionError: this program cannot use the version of the server or of the indices.
        """
        connection = Connection(urls, api_key)
        layout = Layout(prefix)
        control = Control(connection, layout)
        slices = TimeSlices(connection, layout, control)
        leases = RefreshLeases(connection, layout)
        cluster = Cluster(connection, CombinedReads(connection), layout, control, slices, leases)
        try:
            await ensure_layout(connection, layout)
            await fill_rows(cluster, datetime.now(UTC))
            await warn_of_settings(connection)
        except BaseException:
            await connection.close()
            raise
        return cls(cluster)

    async def close(self) -> None:
        await self._cluster.connection.close()

    async def get_identity(self) -> StoreIdentity:
        return (await self._cluster.control.read()).identity

    def revision(self) -> None:
        """Return None: a cluster does not notify clients of writes."""

    async def ping(self) -> None:
        await self._cluster.control.read()

    async def get_status(self, now: datetime) -> StoreStatus:
        return await maintenance.get_status(self._cluster, now)

    async def get_prune_run(self) -> PruneRun | None:
        return await prune_runs.get_prune_run(self._cluster.connection, self._cluster.layout)

    async def replace_prune_run(self, seen: PruneRun | None, run: PruneRun) -> bool:
        connection, layout = self._cluster.connection, self._cluster.layout
        return await prune_runs.replace_prune_run(connection, layout, seen, run)

    async def find_repository(self, name: RepositoryName) -> Repository | None:
        return await repositories.find_repository(self._cluster, name)

    async def list_repositories(self) -> Sequence[Repository]:
        return await repositories.list_repositories(self._cluster)

    async def ensure_repository(self, name: RepositoryName) -> Repository:
        return await repositories.ensure_repository(self._cluster, name)

    async def set_repository(
        self, name: RepositoryName, change: RepositoryChange, now: datetime
    ) -> Repository:
        return await repository_settings.set_repository(self._cluster, name, change, now)

    async def set_code_owners(self, name: RepositoryName, text: str | None) -> None:
        await code_owners.set_code_owners(self._cluster, name, text)

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        return await keys.find_key(self._cluster, digest)

    async def get_key(self, key_id: str) -> ApplicationKey | None:
        return await keys.get_key(self._cluster, key_id)

    async def list_keys(self) -> Sequence[ApplicationKey]:
        return await keys.list_keys(self._cluster)

    async def add_key(self, key: ApplicationKey) -> None:
        await keys.add_key(self._cluster, key)

    async def revoke_key(self, key_id: str, now: datetime) -> bool:
        return await keys.revoke_key(self._cluster, key_id, now)

    async def list_events(
        self, query: EventQuery, anchor: Anchor[EventKey], limit: int
    ) -> Page[EventRow]:
        return await events.list_events(self._cluster, query, anchor, limit)

    async def aggregate_events(self, query: EventQuery, bars: Bars) -> EventAggregate:
        return await event_counts.aggregate_events(self._cluster, self._counted_days, query, bars)

    async def find_newest_arrival(self) -> ArrivalKey:
        return arrivals.find_newest()

    async def list_arrivals(
        self, after: ArrivalKey, limit: int, among: Collection[RepositoryName] | None = None
    ) -> Arrivals:
        return await arrivals.list_arrivals(self._cluster, after, limit, among)

    async def write_events(self, batch: Sequence[StoredEvent]) -> Sequence[EventOutcome]:
        return await self._events.write(batch)

    async def refresh_event_counts(self, now: datetime, goes_on: GoesOn = always) -> int:
        return await event_day_refresh.refresh_event_counts(self._cluster, now, goes_on)

    async def search_tests(
        self, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
    ) -> Page[TestIdentity]:
        return await pages.search_tests(self._cluster, query, anchor, limit)

    async def find_identity(
        self, repository: RepositoryName, identity_id: bytes
    ) -> IdentityKey | None:
        return await pages.find_identity(self._cluster, repository, identity_id)

    async def get_test(self, repository: RepositoryName, test_id: uuid.UUID) -> TestDetail | None:
        return await tests.get_test(self._cluster, repository, test_id)

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        return await executions.write_results(self._cluster, repository, results)

    async def refresh_tests(
        self,
        now: datetime,
        progress: Steps | None = None,
        repository: RepositoryName | None = None,
        changed: Changed | None = None,
    ) -> int:
        return await refresh.refresh_tests(self._cluster, now, progress, repository, changed)

    async def measure_executions(self, selection: ExecutionSelection) -> SelectionExtent:
        return await removal.measure_executions(self._cluster, selection)

    async def remove_executions(
        self, selection: ExecutionSelection, now: datetime, progress: Steps | None = None
    ) -> int:
        return await removal.remove_executions(self._cluster, selection, now, progress)

    async def forget_test(
        self,
        repository: RepositoryName,
        test_name: str,
        now: datetime,
        progress: Steps | None = None,
    ) -> ForgetCount:
        return await removal.forget_test(self._cluster, repository, test_name, now, progress)

    async def list_quarantines(
        self, query: QuarantineQuery, anchor: Anchor[QuarantineKey], limit: int | None
    ) -> Page[Quarantine]:
        return await quarantines.list_quarantines(self._cluster, query, anchor, limit)

    async def get_quarantine(
        self, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
    ) -> Quarantine | None:
        return await quarantines.get_quarantine(self._cluster, repository, quarantine_id, now)

    async def list_quarantine_changes(
        self,
        repository: RepositoryName,
        now: datetime,
        anchor: Anchor[QuarantineChangeKey],
        limit: int,
    ) -> Page[QuarantineChange]:
        return await quarantine_changes.list_changes(self._cluster, repository, now, anchor, limit)

    async def add_quarantine(
        self, repository: RepositoryName, request: QuarantineRequest, now: datetime
    ) -> AddedQuarantine:
        return await quarantines.add_quarantine(self._cluster, repository, request, now)

    async def remove_quarantine(
        self,
        repository: RepositoryName,
        quarantine_id: uuid.UUID,
        now: datetime,
        actor: Actor = UNKNOWN,
    ) -> bool:
        return await quarantines.remove_quarantine(
            self._cluster, repository, quarantine_id, now, actor
        )

    async def prune(
        self,
        before: datetime,
        now: datetime,
        progress: Steps | None = None,
        rollups_before: datetime | None = None,
    ) -> PruneCount:
        return await maintenance.prune(self._cluster, before, now, progress, rollups_before)

    async def rebuild(self, now: datetime, progress: Steps | None = None) -> int:
        return await maintenance.rebuild(self._cluster, now, progress)
