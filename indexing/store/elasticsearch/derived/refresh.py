"""Computes the derived values of stale tests from their executions, and stores them.

Each step uses optimistic concurrency control: if another process has written a test since it was
read, the step repeats that test.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Collection, Sequence
from contextlib import ExitStack, aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Final

from indexing.errors import DATA_ERRORS
from indexing.models.changes import AnswerChanges, Changed
from indexing.names import RepositoryName
from indexing.started_tasks import started
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.concurrency import run_ahead, run_both
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived import (
    auto_quarantine,
    dirty_markers,
    run_counts,
    stored_markers,
)
from indexing.store.elasticsearch.derived.dirty_markers import DirtyMarker
from indexing.store.elasticsearch.derived.forgotten_tests import clear_forgotten
from indexing.store.elasticsearch.derived.reading import (
    Documents,
    Work,
    read_documents,
    search_all,
)
from indexing.store.elasticsearch.derived.run_counts import Counting
from indexing.store.elasticsearch.derived.runs import failed_of, judge_runs
from indexing.store.elasticsearch.derived.spelled_markers import spell_out
from indexing.store.elasticsearch.derived.steps import Done, Step
from indexing.store.elasticsearch.indices.refresh_lease import RefreshLease
from indexing.store.elasticsearch.indices.written_markers import WrittenMarker
from indexing.store.elasticsearch.repositories import note_removal
from indexing.store.interface import Steps

_log = logging.getLogger(__name__)

_TESTS_A_STEP: Final = 500
# A step that computes tests from their executions; with 30 executions a test it reads one page.
_COMPUTED_A_STEP: Final = 300
# Making an index searchable writes a segment, so this is done for this many tests at once.
_TESTS_SHOWN_AT_ONCE: Final = 4_000
# So that the cluster reads for one step and writes for another one while a third is computed here.
_STEPS_AT_ONCE: Final = 3


async def refresh_tests(
    cluster: Cluster,
    now: datetime,
    progress: Steps | None = None,
    repository: RepositoryName | None = None,
    changed: Changed | None = None,
) -> int:
    with ExitStack() as going_first:
        refresh = _Refresh(cluster, now, progress, changed, going_first)
        if repository is None:
            await refresh.run_all()
            return refresh.total
        routing = routing_of(repository)
        async with cluster.refresh_leases.hold(routing) as lease:
            # The refresh counts as a small write until its markers turn out to name many tests.
            going_first.enter_context(cluster.connection.write_priority.small_write())
            await refresh.run(routing, lease)
            going_first.close()
            if changed is not None and lease.met_others:
                changed(AnswerChanges(repository, everything=True))
        return refresh.total


@dataclass(slots=True)
class _Refresh:
    """The state of one refresh: its callbacks, and what it has done.

    `total` is the number of computed tests. `met` are markers that it has handled but not deleted,
    because their change is still in progress, because a test cannot be judged, or because another
    refresh may still write counts of deleted results.
    """

    cluster: Cluster
    now: datetime
    progress: Steps | None
    changed: Changed | None
    going_first: ExitStack
    total: int = 0
    met: set[DirtyMarker] = field(default_factory=set)

    async def run_all(self) -> None:
        """Refresh all repositories, each under its own lease."""
        while await self._handle_found(None, None):
            pass

    async def run(self, routing: str, lease: RefreshLease) -> None:
        """Refresh one repository under that lease."""
        own = self.cluster.written_markers.pop(routing)
        more = True
        # Otherwise another process may have handled these markers, or may have failed to complete
        # its own refresh.
        if own and lease.is_clean and not lease.met_others:
            more = await self._handle_own(routing, lease, own)
        while more:
            more = await self._handle_found(routing, lease)

    async def _handle_own(
        self, routing: str, lease: RefreshLease, own: Sequence[WrittenMarker]
    ) -> bool:
        """Handle the markers that this process has just written; return whether there are more."""
        layout = self.cluster.layout
        # One refresh of the indices makes everything visible that was stored before this call: the
        # executions of these markers, and markers of other processes.
        refreshing = self.cluster.connection.refresh(f"{layout.stale},{layout.executions}")
        async with started(refreshing) as searchable:
            tests = frozenset[str]().union(*(marker.tests for marker in own))
            documents = await read_documents(
                self.cluster,
                routing,
                tests,
                frozenset[str]().union(*(marker.runs for marker in own)),
                frozenset[tuple[str, int]]().union(*(marker.arrivals for marker in own)),
                [marker.id for marker in own],
                merged=tests,
            )
            markers = await stored_markers.parse_markers(filter(None, documents.markers.values()))
            if not markers:
                return True
            return await self._handle(routing, markers, searchable, lease, documents, is_last=True)

    async def _handle_found(self, routing: str | None, lease: RefreshLease | None) -> bool:
        """Handle the markers of one repository or of all; return whether there are more."""
        # Markers before a change are not deleted, so handle each of them only once in this call.
        # A load leaves the markers of a rebuild or prune to it, unless that ended badly: the next
        # holder of the lease has to write the rows that it left out.
        with_later = lease is None or (lease.is_held and not lease.is_clean)
        markers, more = await stored_markers.read_markers(
            self.cluster, routing, self.met, with_later=with_later
        )
        self.met.update(marker for marker in markers if not marker.is_over)
        unnamed = any(marker.tests is None for marker in markers)
        if unnamed or sum(len(marker.tests or ()) for marker in markers) > SMALL_WRITE:
            self.going_first.close()
        if not markers:
            return False
        connection = self.cluster.connection
        async with started(connection.refresh(self.cluster.layout.executions)) as searchable:
            for place, group in groupby(markers, key=lambda marker: marker.routing):
                named = list(group)
                try:
                    more |= await self._handle_of_one(place, named, searchable, lease, more=more)
                except DATA_ERRORS:
                    # A rebuild must not end without the rows of a test.
                    if lease is not None or self.cluster.unread:
                        raise
                    _log.exception(
                        "the tests of a repository cannot be judged and stay stale",
                        extra={"repository_id": place},
                    )
                    self.met.update(named)
        return more

    async def _handle_of_one(
        self,
        routing: str,
        markers: Sequence[DirtyMarker],
        searchable: Awaitable[None],
        lease: RefreshLease | None,
        *,
        more: bool,
    ) -> bool:
        """Handle markers of one repository, under its lease; return whether there are more.

        `more` says whether there are others of any repository.
        """
        covered: set[str] = set()
        for marker in markers:
            if marker.tests is None:
                covered |= await spell_out(self.cluster, marker)
                more = True
        own = self.cluster.refresh_leases.hold(routing) if lease is None else nullcontext(lease)
        async with own as held:
            # The next holder would not know that rows may be outdated, so this one handles all
            # markers of the repository, also those that were written since it read these.
            goes_on = lease is None and held.is_held and not held.is_clean
            more |= await self._handle(
                routing,
                [m for m in markers if m.tests is not None and m.id not in covered],
                searchable,
                held,
                is_last=not goes_on and (lease is None or not more),
            )
            while goes_on:
                goes_on = await self._handle_found(routing, held)
        return more

    async def _handle(
        self,
        routing: str,
        markers: Sequence[DirtyMarker],
        searchable: Awaitable[None],
        lease: RefreshLease,
        documents: Documents | None = None,
        *,
        is_last: bool,
    ) -> bool:
        """Handle markers of one repository; return whether there is more to do.

        `documents` are the documents that the markers name, if the caller has read them instead of
        searching for markers; then this looks for further markers, too. With `is_last`, and if
        there is no more to do, the markers are deleted in the request that ends the lease.
        """
        left: set[str] = set()
        failed: set[str] = set()
        unrefreshed: set[str] = set()
        waiting: list[Done] = []
        more = runs_changed = False
        work = Work.of(markers)
        known = () if documents is None else [marker.id for marker in markers]
        steps = self._compute(routing, work, documents, searchable, lease, known, unrefreshed)
        async with aclosing(steps):
            async for done in steps:
                left |= done.again
                failed |= done.failed
                self.total += done.tests
                more |= done.is_more or bool(done.again)
                if done.runs_changed:
                    runs_changed = True
                    self.met.difference_update(markers)
                if self.progress is not None and done.tests:
                    self.progress(self.total)
                waiting.append(done)
                if sum(each.tests for each in waiting) >= _TESTS_SHOWN_AT_ONCE:
                    await self._show(unrefreshed, waiting)
            await self._show(unrefreshed, waiting)
        if not lease.is_held:
            # After a removal, the holder of the lease may have counted these runs before this
            # refresh wrote its counts.
            await run_counts.count(self.cluster, routing, work.runs, removed=True)
        handled = [marker for marker in markers if left.isdisjoint(marker.tests or ())]
        if runs_changed:
            # No run was counted.
            handled = [marker for marker in handled if not marker.names_runs_alone]
        finished = await self._finish(routing, lease, handled, failed)
        deletions = dirty_markers.list_deletions(self.cluster, finished)
        if is_last and not more:
            lease.end_with(deletions)
        else:
            await bulk.send(self.cluster.connection, deletions, visible=False)
        return more

    async def _finish(
        self,
        routing: str,
        lease: RefreshLease,
        handled: Sequence[DirtyMarker],
        failed: set[str],
    ) -> list[DirtyMarker]:
        """Return those of the handled markers that are to be deleted; keep the work of the others.

        `failed` are the tests that cannot be judged.
        """
        # Tests that cannot be judged stay marked, and no others.
        stuck = [marker for marker in handled if failed.issuperset(marker.tests or (None,))]
        self.met.update(stuck)
        finished = [marker for marker in handled if marker not in stuck]
        if not lease.is_clean:
            # Another refresh may have counted deleted results, and may write that after this. So
            # the next one counts these runs again.
            kept = [marker for marker in finished if marker.names_runs_alone]
            self.met.update(kept)
            finished = [marker for marker in finished if marker not in kept]
            removals = [each.follow_up for each in finished if each.is_over]
            runs = [run for removal in removals if removal.bounds for run in removal.runs]
            await dirty_markers.mark_runs(self.cluster, routing, runs)
        if any(marker.follow_up.bounds and marker.was_abandoned for marker in finished):
            await note_removal(self.cluster, routing)
        return await dirty_markers.narrow_to_failed(self.cluster, finished, failed)

    async def _show(self, unrefreshed: set[str], waiting: list[Done]) -> None:
        """Make the writes of these results visible, then report them; empties both arguments.

        If this fails, changes are not reported. The caller has to expect any change then.
        """
        # Steps in progress may add indices again.
        indices = sorted(unrefreshed)
        unrefreshed.clear()
        if indices:
            await self.cluster.connection.refresh(",".join(indices))
        if self.changed is not None:
            for done in waiting:
                if done.changes is not None:
                    self.changed(done.changes)
        waiting.clear()

    async def _compute(
        self,
        routing: str,
        work: Work,
        documents: Documents | None,
        searchable: Awaitable[None],
        lease: RefreshLease,
        markers: Collection[str],
        unrefreshed: set[str],
    ) -> AsyncGenerator[Done]:
        """Compute the tests of one repository; every search waits for `searchable`.

        Runs are judged first, because the tests depend on the result. If `markers` is not empty,
        this also looks for markers besides those. The caller refreshes the indices in
        `unrefreshed`.
        """
        cluster = self.cluster
        size = _TESTS_A_STEP if work.new else _COMPUTED_A_STEP
        some = work.tests[:size]
        there = documents or await read_documents(
            cluster, routing, some, work.runs, work.arrivals or (), merged=work.new
        )
        retention = there.state.retention
        found = await search_all(cluster, routing, some, work.runs, retention, searchable, markers)
        stored_runs = {run: there.runs[run] for run in work.runs}
        counted = run_counts.sum_by_run(cluster, found.counted)
        if await judge_runs(cluster, routing, stored_runs, counted, retention):
            # All tests of the changed runs have markers now; the next pass computes each test once.
            yield Done(again=frozenset(work.tests), runs_changed=True, is_more=True)
            return
        if found.is_more:
            yield Done(is_more=True)
        counting = Counting()
        if work.arrivals is not None:
            places = run_counts.list_places(cluster, routing, work.arrivals)
            named = {(each.index, each.id): there.counts[each.index, each.id] for each in places}
            counting = Counting.of(routing, named, found.counted)
        elif work.runs:
            await run_counts.count(cluster, routing, work.runs, searchable, removed=True)
        failed_runs = failed_of(stored_runs.values())
        computing = asyncio.Lock()

        starts = range(0, max(len(work.tests), 1), size)

        async def take(start: int) -> list[Done]:
            documents, slots = there, found.slots
            tests = work.tests[start : start + size]
            if start:
                documents, slots = await run_both(
                    read_documents(cluster, routing, tests, merged=work.new),
                    auto_quarantine.read_slots_of(cluster, routing, tests),
                )
            step = await Step.begin(
                cluster,
                routing,
                tests,
                work,
                documents,
                slots,
                failed_runs,
                now=self.now,
                lease=lease,
                counting=Counting() if start else counting,
                computing=computing,
                unrefreshed=None if len(starts) == 1 else unrefreshed,
            )
            dones = [done async for done in step.run()]
            lost = work.lost_in(documents, tests)
            if lost:
                cleared = await clear_forgotten(cluster, routing, lost, slots.values(), self.now)
                name = step.rules.repository.name
                answers = AnswerChanges(name, quarantines=True) if cleared.quarantines else None
                dones.append(Done(is_more=cleared.results or cleared.quarantines, changes=answers))
            return dones

        async with aclosing(run_ahead([partial(take, n) for n in starts], _STEPS_AT_ONCE)) as taken:
            async for dones in taken:
                for done in dones:
                    yield done
