"""Computes the derived values of stale tests from their executions, and stores them.

Each step uses optimistic concurrency control: if another process has written a test since it was
read, the step repeats that test. Identity rows use the version of their test's document as an
external version, so an older result never overwrites a newer one.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, aclosing, nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from indexing.errors import StoreError, StoreUnavailableError
from indexing.models.changes import AnswerChanges, Changed
from indexing.names import RepositoryName
from indexing.store.elasticsearch.announcements import write_announcement
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.concurrency import run_both, started
from indexing.store.elasticsearch.client.connection import Version
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived import changes, dirty_markers, observations, run_counts
from indexing.store.elasticsearch.derived.arrivals import Arrival
from indexing.store.elasticsearch.derived.auto_quarantine import Judged, Rules, rule_tests
from indexing.store.elasticsearch.derived.dirty_markers import DirtyMarker
from indexing.store.elasticsearch.derived.notices import tell
from indexing.store.elasticsearch.derived.results import Result, judge_test
from indexing.store.elasticsearch.derived.rollups import (
    RollupsOfTest,
    build_test,
    history_on,
    merge_tests,
)
from indexing.store.elasticsearch.derived.runs import judge_runs
from indexing.store.elasticsearch.indices.refresh_lease import RefreshLease
from indexing.store.elasticsearch.repositories import document_routed, stored_of
from indexing.store.elasticsearch.tests import StoredTest, test_of
from indexing.store.interface import Steps

# How many tests one step takes.
_TESTS_A_STEP: Final = 500


async def refresh_tests(
    cluster: Cluster,
    now: datetime,
    progress: Steps | None = None,
    repository: RepositoryName | None = None,
    changed: Changed | None = None,
) -> int:
    report = _Report(progress, changed)
    if repository is None:
        with ExitStack() as going_first:
            return await _refresh(cluster, now, report, None, None, going_first)
    routing = routing_of(repository)
    async with cluster.refresh_leases.hold(routing) as lease:
        with ExitStack() as going_first:
            # Small until the markers turn out to name many tests.
            going_first.enter_context(cluster.connection.write_priority.small_write())
            count = await _refresh(cluster, now, report, routing, lease, going_first)
        if changed is not None and lease.met_others:
            changed(AnswerChanges(repository, everything=True))
        return count


@dataclass(frozen=True, slots=True)
class _Report:
    """Whom to tell what a refresh does."""

    progress: Steps | None
    changed: Changed | None

    def tell(self, total: int, done: _Done) -> None:
        if self.changed is not None and done.changes is not None:
            self.changed(done.changes)
        if self.progress is not None and done.tests:
            self.progress(total)


async def _refresh(
    cluster: Cluster,
    now: datetime,
    report: _Report,
    routing: str | None,
    lease: RefreshLease | None,
    going_first: ExitStack,
) -> int:
    """Refresh one repository under that lease, or all of them, each under its own lease."""
    total = 0
    more = True
    met: set[DirtyMarker] = set()
    # The markers of one repository are visible as soon as they are written; a refresh that died may
    # have left older versions.
    refresh = lease is None or not lease.is_clean
    while more:
        markers, more = await dirty_markers.read_markers(cluster, routing, refresh=refresh)
        # A pass deletes markers without a refresh; the next read must not find them again.
        refresh = True
        # Markers before a change are not deleted, so handle each of them only once in this call.
        markers = [marker for marker in markers if marker not in met]
        met.update(marker for marker in markers if not marker.is_over)
        if (
            any(marker.tests is None for marker in markers)
            or sum(map(_size, markers)) > SMALL_WRITE
        ):
            going_first.close()
        if not markers:
            break
        async with started(cluster.connection.refresh(cluster.layout.executions)) as searchable:
            for place, group in groupby(markers, key=lambda marker: marker.routing):
                named = list(group)
                for marker in named:
                    if marker.tests is None:
                        await dirty_markers.spell_out(cluster, marker)
                        more = True
                left: set[str] = set()
                own = cluster.refresh_leases.hold(place) if lease is None else nullcontext(lease)
                async with (
                    own as held,
                    aclosing(
                        _refresh_repository(cluster, place, named, now, searchable, held)
                    ) as steps,
                ):
                    async for done in steps:
                        left |= done.again
                        total += done.tests
                        more |= done.turned or bool(done.again)
                        if done.turned:
                            met.difference_update(named)
                        report.tell(total, done)
                    finished = [
                        marker
                        for marker in named
                        if marker.tests is not None and left.isdisjoint(marker.tests)
                    ]
                    await dirty_markers.drop_markers(cluster, finished)
    return total


def _size(marker: DirtyMarker) -> int:
    return len(marker.tests or ())


@dataclass(frozen=True, slots=True)
class _Done:
    """How many tests were computed, and which need another pass.

    `turned` if a run became an infrastructure failure or ceased to be one. Then nothing was
    computed: all tests of the run have markers by now.
    """

    tests: int = 0
    again: frozenset[str] = frozenset()
    turned: bool = False
    changes: AnswerChanges | None = None


async def _refresh_repository(
    cluster: Cluster,
    routing: str,
    markers: Sequence[DirtyMarker],
    now: datetime,
    searchable: Awaitable[None],
    lease: RefreshLease,
) -> AsyncGenerator[_Done]:
    """Compute the tests that the markers name; every search waits for `searchable`.

    Judges runs before it reads anything that depends on their judgement.
    """
    tests = sorted(frozenset[str]().union(*(marker.tests or () for marker in markers)))
    arrivals = dirty_markers.collect_arrivals(markers)
    runs = frozenset[str]().union(*(marker.follow_up.runs for marker in markers))
    removed: dict[str, set[int]] = {}
    for marker in markers:
        for test, moment in marker.follow_up.bounds:
            removed.setdefault(test, set()).add(moment)
    for start in range(0, max(len(tests), 1), _TESTS_A_STEP):
        some = tests[start : start + _TESTS_A_STEP]
        beginning = _Step.begin(cluster, routing, some, now, removed, arrivals, searchable, lease)
        if start == 0:
            judging = judge_runs(cluster, routing, runs, searchable)
            counting = run_counts.count(cluster, routing, runs, searchable, removed=bool(removed))
            (turned, _), step = await run_both(run_both(judging, counting), beginning)
            if turned:
                # All tests of the run have markers now: the next pass computes each of them once.
                yield _Done(again=frozenset(tests), turned=True)
                return
        else:
            step = await beginning
        async for done in step.run():
            yield done


@dataclass(frozen=True, slots=True)
class _Step:
    """Some tests of one repository, with the settings and the state of the store for judging.

    `merged` are those whose new executions are merged already. `counts` tells how many executions
    the others have, which are read one portion after the other.
    """

    cluster: Cluster
    rules: Rules
    generations: Sequence[str]
    stored: Mapping[str, StoredTest]
    versions: Mapping[str, Version]
    merged: Mapping[str, RollupsOfTest]
    counts: Mapping[str, int]
    # Moments of removed executions, by test.
    removed: Mapping[str, Collection[int]]
    lease: RefreshLease

    @classmethod
    async def begin(
        cls,
        cluster: Cluster,
        routing: str,
        tests: Sequence[str],
        now: datetime,
        removed: Mapping[str, Collection[int]],
        arrivals: Mapping[str, Sequence[Arrival]],
        searchable: Awaitable[None],
        lease: RefreshLease,
    ) -> _Step:
        """Read everything that judging needs, except the executions themselves.

        Reads the documents of tests before it searches, so that a later write by another process
        causes a conflict.
        """
        layout = cluster.layout
        own = (layout.control, document_routed(routing), None)
        state, (repository, *found) = await cluster.control.read_with(
            [own, *((layout.tests, test, routing) for test in tests)]
        )
        if repository is None:
            raise StoreError("a repository is gone from Elasticsearch")
        stored = await write_announcement(cluster, stored_of(repository))
        observed = observations.ObservedBranch(
            routing, state.retention, stored.repository.default_branch
        )
        rules = Rules(
            stored.repository, stored.settings_version, observed, now, stored.subscription
        )
        # A test may be missing: its writer was killed between the marker and the test.
        documents = [document for document in found if document is not None]
        stored_tests = {document.id: test_of(document.source) for document in documents}
        versions = {document.id: document.version for document in documents}
        await searchable
        await _give_way(cluster, len(documents))
        merged = await merge_tests(cluster, observed, stored_tests, arrivals)
        others = [test for test in stored_tests if test not in merged]
        counts = await observations.count_executions(cluster, observed, others) if others else {}
        return cls(
            cluster,
            rules,
            state.generations,
            stored_tests,
            versions,
            merged,
            counts,
            removed,
            lease,
        )

    async def run(self) -> AsyncIterator[_Done]:
        if self.merged:
            judged = await asyncio.to_thread(self._judge_all, self.merged)
            again, answers = await self._store(judged)
            yield _Done(len(judged), again, changes=answers)
        others = [test for test in self.stored if test not in self.merged]
        for portion in observations.split_into_portions(others, self.counts):
            await _give_way(self.cluster, len(self.stored))
            seen = await observations.read_all(
                self.cluster,
                self.rules.executions,
                [each for each in portion if each in self.counts],
            )
            judged = await asyncio.to_thread(self._build_all, portion, seen)
            again, answers = await self._store(judged)
            yield _Done(len(portion), again, changes=answers)

    def _build_all(
        self, tests: Sequence[str], seen: Mapping[str, Sequence[observations.OnBranch]]
    ) -> list[Judged]:
        """Compute and judge tests. Pure; takes long enough to block the event loop."""
        branch = self.rules.repository.default_branch
        final_day = self.rules.executions.retention.final_day
        return self._judge_all(
            {
                test: build_test(
                    seen.get(test, ()),
                    history_on(self.stored[test], branch),
                    final_day,
                )
                for test in tests
            }
        )

    def _judge_all(self, tests: Mapping[str, RollupsOfTest]) -> list[Judged]:
        return [
            judge_test(test, self.stored[test], rollups, self.rules, self.removed.get(test, ()))
            for test, rollups in tests.items()
        ]

    def _derive_all(self, judged: Sequence[Judged], *, whole: bool) -> list[Result]:
        return [
            Result.of(
                test,
                self.rules,
                self.stored[test.test_id],
                self.versions[test.test_id],
                whole=whole,
                is_held=self.lease.is_held,
            )
            for test in judged
        ]

    async def _store(self, judged: Sequence[Judged]) -> tuple[frozenset[str], AnswerChanges]:
        """Write what differs from what is stored.

        Returns the tests that another process has written since they were read, and what changed.
        """
        layout = self.cluster.layout
        indices = [layout.identities_of(generation) for generation in self.generations]
        # After a refresh that failed, rows may lag behind; a new generation may have none yet.
        whole = not self.lease.is_clean or len(indices) > 1
        results = await asyncio.to_thread(self._derive_all, judged, whole=whole)
        changed = [result for result in results if result.is_changed]
        operations = [result.test_operation(layout.tests) for result in changed]
        outcomes = await bulk.send(self.cluster.connection, operations, visible=False)
        written = list(zip(changed, outcomes, strict=True))
        conflicts = {result.test.test_id for result, outcome in written if not outcome.done}
        stored = [(result, outcome.version) for result, outcome in written if outcome.done]
        rows = [
            row for result, version in stored for row in result.row_operations(indices, version)
        ]
        listed = await changes.list_operations(self.cluster, stored, whole=whole) if stored else []
        if listed:
            await bulk.send(self.cluster.connection, listed, visible=True)
        # A conflict here means that the row already has a newer external version. A missing index
        # may mean that a rebuild has ended and deleted the older generation.
        sent, (ruled, quarantines) = await run_both(
            self._write_rows(rows),
            rule_tests(
                self.cluster, self.rules, [test for test in judged if test.test_id not in conflicts]
            ),
        )
        await tell(self.cluster, [each for each in results if each.test.test_id not in conflicts])
        gone = {row.index for row, outcome in zip(rows, sent, strict=True) if outcome.index_gone}
        await self._check_retired(gone)
        answers = AnswerChanges(
            self.rules.repository.name,
            frozenset(uuid.UUID(result.test.test_id) for result, _ in stored if result.shows),
            search=bool(rows),
            quarantines=quarantines,
        )
        return ruled | conflicts, answers

    async def _write_rows(self, rows: Sequence[Operation]) -> list[Outcome]:
        connection = self.cluster.connection
        outcomes = await bulk.send(connection, rows, visible=False, may_be_gone=True)
        unread = self.cluster.unread
        await bulk.make_visible(connection, (row for row in rows if row.index not in unread))
        return outcomes

    async def _check_retired(self, indices: Collection[str]) -> None:
        """Raise `StoreUnavailableError` if one of these generations should still be there."""
        if not indices:
            return
        state = await self.cluster.control.read()
        for generation in state.generations:
            index = self.cluster.layout.identities_of(generation)
            if index in indices:
                raise StoreUnavailableError(f"the index {index} is gone from Elasticsearch")


async def _give_way(cluster: Cluster, tests: int) -> None:
    if tests > SMALL_WRITE:
        await cluster.connection.write_priority.give_way()
