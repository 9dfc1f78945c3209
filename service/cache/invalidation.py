"""Writes to the store and invalidates the cache; the service and the commands write through it.

Each call writes first and then invalidates, even if the write failed or was cancelled: it may have
committed. What each call invalidates:

- settings and removals: the answers of their repository, or of all if the call covers all;
- refreshed tests: those that the store reports as changed; all answers of their repository if the
  call failed, as it may have changed more than it reported;
- quarantines: the quarantines of their repository;
- keys: the cached credentials;
- events: the event log of their repositories;
- executions, new repositories and the record of retention: nothing. Absent values are not cached,
  and executions show once their tests are refreshed.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, Final, Protocol

from indexing.models.changes import AnswerChanges, Changed
from indexing.models.events import StoredEvent
from indexing.models.executions import Execution, Run
from indexing.models.keys import ApplicationKey
from indexing.models.quarantines import (
    UNKNOWN,
    Actor,
    AddedQuarantine,
    QuarantineRequest,
)
from indexing.models.repositories import Repository, RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.names import RepositoryName
from indexing.pruning import PruneRun
from indexing.store.interface import (
    EventOutcome,
    ExecutionCount,
    ForgetCount,
    PruneCount,
    Steps,
    Store,
    Writer,
)
from indexing.yielding import GoesOn, always
from service.cache.keys import (
    CREDENTIALS,
    EVERYTHING,
    events_namespace,
    quarantines_namespace,
    repository_namespace,
    search_namespace,
    test_namespace,
)

# With more changed namespaces, the whole repository is invalidated: Redis gets a key for each.
_MAX_NAMESPACES: Final = 2_000


class Invalidator(Protocol):
    """Makes cached values invalid."""

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        """Make everything cached in these namespaces invalid."""


class InvalidatingStore(Writer):
    """A store that makes cached values invalid after each write, before the write returns.

    Then the next read of this process shows the write, and that of every process which shares the
    versions (`docs/caching.md` says which do).
    """

    def __init__(self, store: Store, invalidator: Invalidator) -> None:
        self._store = store
        self._invalidator = invalidator
        # By repository: the namespaces that refreshes in progress have changed so far.
        self._changed: dict[str, dict[str, None]] = {}

    @asynccontextmanager
    async def _invalidating(self, namespace: str) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self._invalidator.invalidate((namespace,))

    def _changing(self, repository: RepositoryName | None) -> AbstractAsyncContextManager[None]:
        return self._invalidating(
            EVERYTHING if repository is None else repository_namespace(repository)
        )

    async def set_repository(
        self, name: RepositoryName, change: RepositoryChange, now: datetime
    ) -> Repository:
        async with self._changing(name):
            return await self._store.set_repository(name, change, now)

    async def set_code_owners(self, name: RepositoryName, text: str | None) -> None:
        async with self._changing(name):
            await self._store.set_code_owners(name, text)

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        return await self._store.write_results(repository, results)

    async def refresh_tests(
        self,
        now: datetime,
        progress: Steps | None = None,
        repository: RepositoryName | None = None,
        changed: Changed | None = None,
    ) -> int:
        if repository is None:
            async with self._changing(None):
                return await self._store.refresh_tests(now, progress, None, changed)

        def note(changes: AnswerChanges) -> None:
            namespaces = self._changed.setdefault(repository.key, {})
            namespaces.update(dict.fromkeys(_namespaces_of(changes)))
            if changed is not None:
                changed(changes)

        is_complete = False
        try:
            count = await self._store.refresh_tests(now, progress, repository, note)
            is_complete = True
        finally:
            # This includes what other calls in progress report: they may refresh this one's tests.
            namespaces = self._changed.pop(repository.key, {})
            if not is_complete or len(namespaces) > _MAX_NAMESPACES:
                namespaces = dict.fromkeys([repository_namespace(repository)])
            await self._invalidator.invalidate(namespaces)
        return count

    async def remove_executions(
        self, selection: ExecutionSelection, now: datetime, progress: Steps | None = None
    ) -> int:
        async with self._changing(selection.repository):
            return await self._store.remove_executions(selection, now, progress)

    async def forget_test(
        self,
        repository: RepositoryName,
        test_name: str,
        now: datetime,
        progress: Steps | None = None,
    ) -> ForgetCount:
        async with self._changing(repository):
            return await self._store.forget_test(repository, test_name, now, progress)

    async def add_quarantine(
        self, repository: RepositoryName, request: QuarantineRequest, now: datetime
    ) -> AddedQuarantine:
        async with self._invalidating(quarantines_namespace(repository)):
            return await self._store.add_quarantine(repository, request, now)

    async def remove_quarantine(
        self,
        repository: RepositoryName,
        quarantine_id: uuid.UUID,
        now: datetime,
        actor: Actor = UNKNOWN,
    ) -> bool:
        async with self._invalidating(quarantines_namespace(repository)):
            return await self._store.remove_quarantine(repository, quarantine_id, now, actor)

    async def add_key(self, key: ApplicationKey) -> None:
        async with self._invalidating(CREDENTIALS):
            await self._store.add_key(key)

    async def revoke_key(self, key_id: str, now: datetime) -> bool:
        async with self._invalidating(CREDENTIALS):
            return await self._store.revoke_key(key_id, now)

    async def prune(
        self,
        before: datetime,
        now: datetime,
        progress: Steps | None = None,
        rollups_before: datetime | None = None,
    ) -> PruneCount:
        async with self._changing(None):
            return await self._store.prune(before, now, progress, rollups_before)

    async def rebuild(self, now: datetime, progress: Steps | None = None) -> int:
        async with self._changing(None):
            return await self._store.rebuild(now, progress)

    async def ensure_repository(self, name: RepositoryName) -> Repository:
        return await self._store.ensure_repository(name)

    async def write_events(self, events: Sequence[StoredEvent]) -> Sequence[EventOutcome]:
        try:
            return await self._store.write_events(events)
        finally:
            # All spellings of a repository have one namespace.
            repositories = {event.repository.key: event.repository for event in events}
            await self._invalidator.invalidate(map(events_namespace, repositories.values()))

    async def refresh_event_counts(self, now: datetime, goes_on: GoesOn = always) -> int:
        return await self._store.refresh_event_counts(now, goes_on)

    async def replace_prune_run(self, seen: PruneRun | None, run: PruneRun) -> bool:
        return await self._store.replace_prune_run(seen, run)

    def __getattr__(self, name: str) -> Any:
        """Return a read method of the store: every method of `Writer` is defined above."""
        return getattr(self._store, name)


def _namespaces_of(changes: AnswerChanges) -> Iterator[str]:
    repository = changes.repository
    if changes.everything:
        yield repository_namespace(repository)
    if changes.search:
        yield search_namespace(repository)
    if changes.quarantines:
        yield quarantines_namespace(repository)
    for test_id in changes.tests:
        yield test_namespace(repository, test_id.bytes)
