"""The embedded store: implements `Store` over one file; each method delegates to its module."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from indexing.models.arrivals import ArrivalKey, Arrivals
from indexing.models.changes import Changed
from indexing.models.event_aggregates import Bars, EventAggregate
from indexing.models.events import EventKey, EventQuery, EventRow, StoredEvent
from indexing.models.executions import Execution, Run, group_by_run
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
from indexing.store.sqlite import (
    arrivals,
    code_owners,
    event_counts,
    event_days,
    events,
    executions,
    keys,
    maintenance,
    metrics_filling,
    outbox,
    prune_runs,
    quarantine_changes,
    quarantines,
    removal,
    repositories,
    repository_settings,
    rollups,
    run_days,
    tests,
)
from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.event_plan import find_excluded_column
from indexing.store.sqlite.insights import SqliteInsights
from indexing.store.sqlite.notifications import SqliteNotifications
from indexing.store.sqlite.pace import Deletion, at_pace, new_pace
from indexing.store.sqlite.rebuilding import rebuild_in_steps
from indexing.store.sqlite.refreshing import refresh_in_steps
from indexing.store.sqlite.search import identities
from indexing.store.sqlite.search.strategy import choose_strategy
from indexing.yielding import GoesOn, always

# The number of rows in one transaction of long work. It takes a few tenths of a second, so that
# other writers get their turn.
_TESTS_A_STEP: Final = 200
_REMOVED_A_STEP: Final = 5_000


class SqliteStore(SqliteInsights, SqliteNotifications, Store):
    """A store in one SQLite file. Several processes may open it; only one writes at a time."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections)
        self._events_pace = new_pace()
        self._executions_pace = new_pace()

    @classmethod
    async def open(cls, path: Path) -> SqliteStore:
        """Open the file, creating it if needed; raise `StoreError` if it cannot be used."""
        connections = Connections.open(path)
        if not await connections.read(metrics_filling.is_filled):
            # An earlier release stored rows without metrics.
            fill = partial(metrics_filling.fill_some, limit=_TESTS_A_STEP)
            await connections.write_in_steps(fill)
        return cls(connections)

    async def close(self) -> None:
        await self._connections.close()

    async def get_identity(self) -> StoreIdentity:
        return await self._connections.read(maintenance.get_identity)

    def revision(self) -> Hashable | None:
        return self._connections.revision()

    async def ping(self) -> None:
        await self._connections.read(maintenance.get_identity)

    async def get_status(self, now: datetime) -> StoreStatus:
        return await self._connections.read_without_limit(partial(maintenance.get_status, now=now))

    async def get_prune_run(self) -> PruneRun | None:
        return await self._connections.read(prune_runs.get_prune_run)

    async def replace_prune_run(self, seen: PruneRun | None, run: PruneRun) -> bool:
        return await self._connections.write(
            partial(prune_runs.replace_prune_run, seen=seen, run=run)
        )

    async def find_repository(self, name: RepositoryName) -> Repository | None:
        return await self._connections.read(partial(repositories.find_repository, name=name))

    async def list_repositories(self) -> Sequence[Repository]:
        return await self._connections.read(repositories.list_repositories)

    async def ensure_repository(self, name: RepositoryName) -> Repository:
        # Usually the repository exists already, and a write would have to wait for its turn.
        found = await self.find_repository(name)
        if found is not None:
            return found
        return await self._connections.write(partial(repositories.ensure_repository, name=name))

    async def set_repository(
        self, name: RepositoryName, change: RepositoryChange, now: datetime
    ) -> Repository:
        return await self._connections.write(
            partial(repository_settings.set_repository, name=name, change=change, now=now)
        )

    async def set_code_owners(self, name: RepositoryName, text: str | None) -> None:
        await self._connections.write(partial(code_owners.set_code_owners, name=name, text=text))

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        return await self._connections.read(partial(keys.find_key, digest=digest))

    async def get_key(self, key_id: str) -> ApplicationKey | None:
        return await self._connections.read(partial(keys.get_key, key_id=key_id))

    async def list_keys(self) -> Sequence[ApplicationKey]:
        return await self._connections.read(keys.list_keys)

    async def add_key(self, key: ApplicationKey) -> None:
        await self._connections.write(partial(keys.add_key, key=key))

    async def revoke_key(self, key_id: str, now: datetime) -> bool:
        return await self._connections.write(partial(keys.revoke_key, key_id=key_id, now=now))

    async def list_events(
        self, query: EventQuery, anchor: Anchor[EventKey], limit: int
    ) -> Page[EventRow]:
        read = partial(events.list_events, query=query, anchor=anchor, limit=limit)
        if find_excluded_column(query) is None:
            return await self._connections.read(read)
        return await self._connections.read_by_plans((read,), partial(read, by_complement=True))

    async def aggregate_events(self, query: EventQuery, bars: Bars) -> EventAggregate:
        return await self._connections.read_slowly(
            partial(event_counts.aggregate_events, query=query, bars=bars)
        )

    async def find_newest_arrival(self) -> ArrivalKey:
        return await self._connections.read(arrivals.find_newest)

    async def list_arrivals(
        self, after: ArrivalKey, limit: int, among: Collection[RepositoryName] | None = None
    ) -> Arrivals:
        return await self._connections.read(
            partial(arrivals.list_arrivals, after=after, limit=limit, among=among)
        )

    async def write_events(self, batch: Sequence[StoredEvent]) -> Sequence[EventOutcome]:
        outcomes = await self._connections.write_rows(batch, events.write_events, self._events_pace)
        return [outcome for step in outcomes for outcome in step]

    async def refresh_event_counts(self, now: datetime, goes_on: GoesOn = always) -> int:
        return await event_days.refresh_event_counts(self._connections, now, goes_on)

    async def search_tests(
        self, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
    ) -> Page[TestIdentity]:
        strategy = choose_strategy(query, anchor, limit)
        if strategy.is_slow:
            return await self._connections.read_slowly(strategy.last)
        return await self._connections.read_by_plans(
            strategy.plans, strategy.last, briefly=strategy.briefly
        )

    async def find_identity(
        self, repository: RepositoryName, identity_id: bytes
    ) -> IdentityKey | None:
        return await self._connections.read(
            partial(identities.find_identity, repository=repository, identity_id=identity_id)
        )

    async def get_test(self, repository: RepositoryName, test_id: uuid.UUID) -> TestDetail | None:
        return await self._connections.read(
            partial(tests.get_test, repository=repository, test_id=test_id)
        )

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        counts = await self._connections.write_rows(
            [(run, execution) for run, batch in results.items() for execution in batch],
            lambda connection, rows: executions.write_results(
                connection, repository, group_by_run(rows)
            ),
            self._executions_pace,
        )
        return ExecutionCount(
            sum(count.written for count in counts), sum(count.unchanged for count in counts)
        )

    async def refresh_tests(
        self,
        now: datetime,
        progress: Steps | None = None,
        repository: RepositoryName | None = None,
        changed: Changed | None = None,
    ) -> int:
        return await refresh_in_steps(self._connections, now, progress, repository, changed)

    async def measure_executions(self, selection: ExecutionSelection) -> SelectionExtent:
        return await self._connections.read_without_limit(
            partial(removal.measure, selection=selection)
        )

    async def remove_executions(
        self, selection: ExecutionSelection, now: datetime, progress: Steps | None = None
    ) -> int:
        step = partial(removal.remove_some, selection=selection, limit=_REMOVED_A_STEP)
        removed = await self._connections.write_in_steps(step)
        if selection.outside is not None:
            await self._connections.write(
                partial(
                    removal.drop_misdated,
                    repository=selection.repository,
                    accepted=selection.outside,
                    now=now,
                )
            )
        await self.refresh_tests(now, progress, selection.repository)
        return removed

    async def forget_test(
        self,
        repository: RepositoryName,
        test_name: str,
        now: datetime,
        progress: Steps | None = None,
    ) -> ForgetCount:
        of_test = ExecutionSelection(repository, test_name=test_name)
        removed = await self.remove_executions(of_test, now, progress)
        last = await self._connections.write(
            partial(removal.forget_test, repository=repository, test_name=test_name, now=now)
        )
        # Removing executions that arrived meanwhile may have made other tests stale.
        await self.refresh_tests(now, progress, repository)
        return replace(last, executions=removed + last.executions)

    async def list_quarantines(
        self, query: QuarantineQuery, anchor: Anchor[QuarantineKey], limit: int | None
    ) -> Page[Quarantine]:
        return await self._connections.read(
            partial(quarantines.list_quarantines, query=query, anchor=anchor, limit=limit)
        )

    async def get_quarantine(
        self, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
    ) -> Quarantine | None:
        return await self._connections.read(
            partial(
                quarantines.get_quarantine,
                repository=repository,
                quarantine_id=quarantine_id,
                now=now,
            )
        )

    async def list_quarantine_changes(
        self,
        repository: RepositoryName,
        now: datetime,
        anchor: Anchor[QuarantineChangeKey],
        limit: int,
    ) -> Page[QuarantineChange]:
        return await self._connections.read(
            partial(
                quarantine_changes.list_changes,
                repository=repository,
                now=now,
                anchor=anchor,
                limit=limit,
            )
        )

    async def add_quarantine(
        self, repository: RepositoryName, request: QuarantineRequest, now: datetime
    ) -> AddedQuarantine:
        return await self._connections.write(
            partial(quarantines.add_quarantine, repository=repository, request=request, now=now)
        )

    async def remove_quarantine(
        self,
        repository: RepositoryName,
        quarantine_id: uuid.UUID,
        now: datetime,
        actor: Actor = UNKNOWN,
    ) -> bool:
        return await self._connections.write(
            partial(
                quarantines.remove_quarantine,
                repository=repository,
                quarantine_id=quarantine_id,
                now=now,
                actor=actor,
            )
        )

    async def prune(
        self,
        before: datetime,
        now: datetime,
        progress: Steps | None = None,
        rollups_before: datetime | None = None,
    ) -> PruneCount:
        connections = self._connections

        async def delete(some: Deletion) -> int:
            return await connections.write_in_steps(at_pace(some))

        # Days that lose executions become final, so they must be up to date first.
        await self.refresh_tests(now, progress)
        dropped_executions = await delete(partial(maintenance.prune_executions, before=before))
        old = await connections.read_without_limit(partial(events.find_repositories, before=before))
        dropped_events = await delete(
            partial(maintenance.prune_events, before=before, repositories=deque(old))
        )
        await delete(partial(quarantine_changes.prune_changes, before=before))
        await delete(partial(quarantine_changes.prune_expiries, before=before, now=now))
        await delete(partial(outbox.prune_outbox, before=before))
        if rollups_before is not None:
            until = min(before, rollups_before)
            await delete(partial(rollups.prune_days, before=until))
            await delete(partial(run_days.prune_past_days, before=until))
        await self.refresh_tests(now, progress)
        return PruneCount(dropped_events, dropped_executions)

    async def rebuild(self, now: datetime, progress: Steps | None = None) -> int:
        return await rebuild_in_steps(self._connections, now, progress)
