"""Computes, judges and stores some tests of one repository.

Each write of a test checks the version that was read. Identity rows use the version of their test's
document as an external version, so an older result never overwrites a newer one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ParamSpec, TypeVar

from indexing.errors import DATA_ERRORS, StoreError, StoreUnavailableError
from indexing.health.judged_jobs import TESTS_ARE_FULL, has_become_full
from indexing.models.changes import AnswerChanges
from indexing.names import RepositoryName
from indexing.store.elasticsearch.announcements import write_announcement
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.concurrency import run_both
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import changes, notices, observations, run_counts
from indexing.store.elasticsearch.derived.auto_quarantine import RuleInputs, apply_rules
from indexing.store.elasticsearch.derived.reading import Documents, Work
from indexing.store.elasticsearch.derived.results import Result, judge_test
from indexing.store.elasticsearch.derived.rollups import (
    RollupsOfTest,
    build_test,
    history_on,
    merge_tests,
)
from indexing.store.elasticsearch.derived.run_counts import Counting
from indexing.store.elasticsearch.indices.control import State
from indexing.store.elasticsearch.indices.refresh_lease import RefreshLease
from indexing.store.elasticsearch.quarantine_slots import QuarantineSlot
from indexing.store.elasticsearch.repositories import removal_of, stored_of
from indexing.store.elasticsearch.search_generations import REPLACED
from indexing.store.elasticsearch.tests import RemovedBound, StoredTest, test_of
from indexing.yielding import LoopYielder

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a step: how many tests are up to date, and which others need another pass.

    `runs_changed` is true if a run became an infrastructure failure or ceased to be one. Then no
    test was computed, and all tests of the run have markers. `is_more` is true if there are more
    markers. `failed` are tests that cannot be judged.
    """

    tests: int = 0
    again: frozenset[str] = frozenset()
    runs_changed: bool = False
    is_more: bool = False
    changes: AnswerChanges | None = None
    failed: frozenset[str] = frozenset()


@dataclass(slots=True)
class Step:
    """Some tests of one repository, with the settings and stored data that judging them needs.

    `merged` has the roll-ups of tests whose new executions could be merged. `counts` has the number
    of executions of the others, which are read one portion after the other. `counting` has counts
    of runs, which are written together with the first tests. `recount` are runs to count again,
    because another process has counted them too. `unrefreshed` collects the indices with writes
    that searches may not see yet, for the caller to refresh; if it is None, the step does that.
    """

    cluster: Cluster
    rules: RuleInputs
    state: State
    stored: Mapping[str, StoredTest]
    versions: Mapping[str, Version]
    # The tests whose documents this process remembered instead of reading them.
    remembered: frozenset[str]
    slots: Mapping[str, QuarantineSlot]
    merged: Mapping[str, RollupsOfTest]
    counts: Mapping[str, int]
    # The bounds that may come from removed executions, by test.
    removed: Mapping[str, Collection[RemovedBound]]
    lease: RefreshLease
    counting: Counting
    # Held while tests are computed; concurrent steps share it.
    computing: asyncio.Lock
    unrefreshed: set[str] | None
    recount: list[str] = field(default_factory=list)
    # The tests that cannot be judged.
    failed: set[str] = field(default_factory=set)

    @classmethod
    async def begin(
        cls,
        cluster: Cluster,
        routing: str,
        tests: Collection[str],
        work: Work,
        documents: Documents,
        slots: Mapping[str, QuarantineSlot],
        failed_runs: frozenset[str],
        *,
        now: datetime,
        lease: RefreshLease,
        counting: Counting,
        computing: asyncio.Lock,
        unrefreshed: set[str] | None,
    ) -> Step:
        """Merge new executions where possible; `documents` were read before the searches."""
        stored = await write_announcement(cluster, stored_of(documents.repository))
        observed = observations.ObservedBranch(
            routing, documents.state.retention, stored.repository.default_branch
        )
        rules = RuleInputs(
            repository=stored.repository,
            settings_version=stored.settings_version,
            observed=observed,
            now=now,
            subscription=stored.subscription,
            failed_runs=failed_runs,
            removal=removal_of(documents.repository),
        )
        found = {test: documents.tests[test] for test in tests if test in documents.tests}
        failed: set[str] = set()
        name = stored.repository.name
        stored_tests = _try_each(
            cluster, name, found, lambda test: test_of(found[test].source), failed
        )
        await _give_way(cluster, len(found))
        merged = await merge_tests(
            cluster, observed, stored_tests, work.new_in(documents), failed_runs
        )
        others = [test for test in stored_tests if test not in merged]
        counts = await observations.count_executions(cluster, observed, others) if others else {}
        return cls(
            cluster=cluster,
            rules=rules,
            state=documents.state,
            stored=stored_tests,
            versions={test: document.version for test, document in found.items()},
            remembered=documents.remembered,
            slots=slots,
            merged=merged,
            counts=counts,
            removed=work.removed,
            lease=lease,
            counting=counting,
            computing=computing,
            unrefreshed=unrefreshed,
            failed=failed,
        )

    async def run(self) -> AsyncIterator[Done]:
        """Store all tests, one portion after the other, and the counts of runs."""
        if self.merged:
            results = await self._compute(self._derive_all, self.merged)
            again, answers = await self._store(results)
            yield Done(len(results) - len(again), again, changes=answers)
        others = [test for test in self.stored if test not in self.merged]
        for portion in observations.split_into_portions(others, self.counts):
            await _give_way(self.cluster, len(self.stored))
            read = await observations.read_counted(
                self.cluster,
                self.rules.observed,
                {each: self.counts[each] for each in portion if each in self.counts},
            )
            results = await self._compute(self._build_all, portion, read)
            again, answers = await self._store(results)
            yield Done(len(results) - len(again), again, changes=answers)
        # Write the counts of runs if there was no test to write them with.
        await self._write_rows([], [])
        if self.failed:
            yield Done(failed=frozenset(self.failed))
        await run_counts.count(self.cluster, self.rules.observed.routing, self.recount)

    async def _compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread, after those of concurrent steps.

        Two of them at once would both take twice as long, and meanwhile the cluster would wait.
        """
        async with self.computing:
            return await asyncio.to_thread(function, *args, **kwargs)

    def _build_all(self, tests: Sequence[str], read: observations.ReadExecutions) -> list[Result]:
        """Compute tests from their executions. Pure; would block the event loop."""
        branch = self.rules.repository.default_branch
        final_day = self.rules.observed.retention.final_day
        seen = read.by_test(tests)

        def build(test: str) -> Result:
            stored = self.stored[test]
            judged = stored.judged_jobs_on(branch)
            built = build_test(seen[test], history_on(stored, branch), final_day, judged)
            return self._derive(test, built)

        return self._derive_each(tests, build)

    def _derive_all(self, tests: Mapping[str, RollupsOfTest]) -> list[Result]:
        """Judge tests, and derive their new documents. Pure."""
        return self._derive_each(tests, lambda test: self._derive(test, tests[test]))

    def _derive_each(self, tests: Iterable[str], derive: Callable[[str], Result]) -> list[Result]:
        name = self.rules.repository.name
        return [*_try_each(self.cluster, name, tests, derive, self.failed).values()]

    def _derive(self, test: str, rollups: RollupsOfTest) -> Result:
        stored = self.stored[test]
        judged = judge_test(test, stored, rollups, self.rules, self.removed.get(test, ()))
        return Result.of(
            judged,
            self.rules,
            stored,
            self.versions[test],
            # A refresh that read the test before its results were removed has to conflict.
            rewrite_all=self.lease.may_lack_rows(test) or test in self.removed,
            is_filling=self.state.building is not None,
            is_held=self.lease.is_held,
        )

    async def _store(self, results: Sequence[Result]) -> tuple[frozenset[str], AnswerChanges]:
        """Write the values that differ from the stored ones.

        Returns the tests that another process has written since they were read, and which answers
        of the API changed.
        """
        layout = self.cluster.layout
        # Whether each index may lack rows, because a rebuild is filling it.
        indices = {
            layout.identities_of(generation): generation == self.state.building
            for generation in self.state.generations
        }
        if not self.cluster.unread.issubset(indices):
            raise StoreError(REPLACED)
        await notices.finish(self.cluster, results)
        self._warn_of_full_tests(results)
        changed = [result for result in results if result.is_changed]
        operations = [result.test_operation(layout.tests) for result in changed]
        outcomes = await bulk.send(self.cluster.connection, operations, visible=False)
        written = list(zip(changed, outcomes, strict=True))
        conflicts = await self._remember(results, operations, written)
        stored = [(result, outcome.version) for result, outcome in written if outcome.done]
        rows = [
            row for result, version in stored for row in result.row_operations(indices, version)
        ]
        listed = await changes.list_operations(self.cluster, stored) if stored else []
        kept = [result for result in results if result.test.test_id not in conflicts]
        # Before the rules, so that a quarantine is never sent before the change that caused it.
        await notices.notify(self.cluster, kept)
        judged = [result.test for result in kept]
        sent, (ruled, quarantines) = await run_both(
            self._write_rows(rows, listed),
            apply_rules(self.cluster, self.rules, judged, self.slots),
        )
        # A conflict means that the row already has a newer external version. A missing index may
        # mean that a rebuild has ended and deleted the older generation, or that the one which
        # filled it was interrupted.
        gone = {row.index for row, outcome in zip(rows, sent, strict=True) if outcome.index_gone}
        await self._check_retired(gone)
        for result, _ in stored:
            self.lease.trust(result.test.test_id)
        answers = AnswerChanges(
            self.rules.repository.name,
            frozenset(
                uuid.UUID(result.test.test_id) for result, _ in stored if result.detail_changed
            ),
            search=bool(rows),
            quarantines=quarantines,
        )
        return ruled | conflicts, answers

    def _warn_of_full_tests(self, results: Iterable[Result]) -> None:
        full = sum(
            has_become_full(len(result.before.rollups or ()), len(result.after.rollups or ()))
            for result in results
        )
        if full:
            repository = str(self.rules.repository.name)
            _log.warning(TESTS_ARE_FULL, extra={"tests": full, "repository": repository})

    async def _remember(
        self,
        results: Sequence[Result],
        operations: Sequence[Operation],
        written: Sequence[tuple[Result, Outcome]],
    ) -> set[str]:
        """Remember the tests that were written; return those that need another pass.

        These are the ones that another process has written, and remembered ones without a change:
        only a write shows that a remembered document is still the stored one.
        """
        known, routing = self.cluster.written_tests, self.rules.observed.routing
        again: set[str] = set()
        yielder = LoopYielder()
        for operation, (_, outcome) in zip(operations, written, strict=True):
            if outcome.done:
                # A rebuild would only displace the tests of loads.
                text = None if self.cluster.unread else operation.text
                known.keep(routing, operation.id, text, outcome.written)
                await yielder.yield_if_due()
                continue
            again.add(operation.id)
            self.lease.doubt(operation.id)
            if operation.id in self.remembered:
                known.note_other_writer(routing)
        for result in results:
            if not result.is_changed and result.test.test_id in self.remembered:
                again.add(result.test.test_id)
        for test in again:
            known.forget(test)
        return again

    async def _write_rows(
        self, rows: Sequence[Operation], listed: Sequence[Operation]
    ) -> list[Outcome]:
        """Write search rows, changes of health and counts of runs.

        They are visible afterwards, or their indices are in `unrefreshed`. Counts are written only
        once. Returns the outcomes of the search rows.
        """
        connection, unread = self.cluster.connection, self.cluster.unread
        counting, self.counting = self.counting, Counting()
        others = [*listed, *counting.operations]
        operations = [*rows, *others]
        outcomes = await bulk.send(connection, operations, visible=False, may_be_gone=True)
        of_others = outcomes[len(rows) :]
        for operation, outcome in zip(others, of_others, strict=True):
            if outcome.failed:
                raise outcome.failure(operation)
        self.recount += counting.find_conflicts(of_others[len(listed) :])
        written = [each for each in operations if each.index not in unread]
        if self.unrefreshed is None:
            await bulk.make_visible(connection, written)
        else:
            self.unrefreshed.update(each.index for each in written)
        return outcomes[: len(rows)]

    async def _check_retired(self, indices: Collection[str]) -> None:
        """Raise `StoreUnavailableError` if readers use one of these missing indices.

        The generation that a rebuild fills may be missing: the rebuild was killed before it created
        the index, or another rebuild has deleted it.
        """
        if not indices:
            return
        state = await self.cluster.control.read()
        index = self.cluster.layout.identities_of(state.identities)
        if index in indices:
            raise StoreUnavailableError(f"the index {index} is gone from Elasticsearch")


def _try_each(
    cluster: Cluster,
    repository: RepositoryName,
    tests: Iterable[str],
    work: Callable[[str], T],
    failed: set[str],
) -> dict[str, T]:
    """Return the results of the work on each test; add those that cannot be judged to `failed`."""
    results: dict[str, T] = {}
    for test in tests:
        try:
            results[test] = work(test)
        except DATA_ERRORS:
            # A rebuild must not end without the rows of a test.
            if cluster.unread:
                raise
            _log.exception(
                "a test cannot be judged and stays stale",
                extra={"test_id": test, "repository": str(repository)},
            )
            failed.add(test)
    return results


async def _give_way(cluster: Cluster, tests: int) -> None:
    if tests > SMALL_WRITE:
        await cluster.connection.write_priority.give_way()
