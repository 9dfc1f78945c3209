"""Judges whether quarantined tests recovered, by later executions on the branches they cover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from indexing.health.observations import Observation
from indexing.health.recovery import BranchEvidence, Recovery, collect_evidence, select_branches
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import observations
from indexing.store.elasticsearch.derived.marked_executions import MarkedExecution
from indexing.store.elasticsearch.derived.rollups import RollupsOfTest
from indexing.store.elasticsearch.quarantine_slots import QuarantineSlot, Record
from indexing.timestamps import to_microseconds

_TESTS_AT_ONCE: Final = 20


class _Held(NamedTuple):
    """A slot with a record, and its place in the list of all slots."""

    number: int
    slot: QuarantineSlot
    record: Record

    @property
    def began(self) -> int:
        return to_microseconds(self.record.created_at)


# The slots with a record, by test.
_SlotsOfTests = Mapping[str, Sequence[_Held]]


async def judge_recovery(
    cluster: Cluster,
    routing: str,
    slots: Sequence[QuarantineSlot],
    changes: Mapping[str, RollupsOfTest] | None = None,
    failed_runs: Collection[str] = (),
    take_turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> list[QuarantineSlot]:
    """Return the slots of one repository with `is_recovered` up to date.

    If `changes` has the new executions of a test, they are added to the stored recovery; of their
    runs, `failed_runs` failed as a whole. Otherwise, all executions since the quarantine began are
    read, each page but the first within a turn.
    """
    executions = {
        test: rollups.executions
        for test, rollups in (changes or {}).items()
        if rollups.executions is not None
    }
    known: dict[str, list[_Held]] = {}
    unknown: dict[str, list[_Held]] = {}
    for number, slot in enumerate(slots):
        record, test = slot.record, str(slot.test_id)
        if record is not None:
            is_known = record.recovery is not None and test in executions
            held = _Held(number, slot, record)
            (known if is_known else unknown).setdefault(test, []).append(held)
    updated = list(slots)

    def merge_known() -> None:
        for test, of_test in known.items():
            evidence = collect_evidence(_observe(executions[test], failed_runs))
            for each in of_test:
                updated[each.number] = _merge(each, each.record.recovery, evidence)

    if known:
        # A test may have thousands of new executions, and many quarantines.
        await asyncio.to_thread(merge_known)
    await _judge_unknown(cluster, routing, unknown, updated, take_turn)
    return updated


async def _judge_unknown(
    cluster: Cluster,
    routing: str,
    unknown: _SlotsOfTests,
    updated: list[QuarantineSlot],
    take_turn: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    """Judge the slots by all executions since they began, and put them into `updated`."""
    if not unknown:
        return
    retention = (await cluster.control.read()).retention
    for each in chain.from_iterable(unknown.values()):
        before = each.record.recovery
        # Verdicts that passed and that retention has removed still count.
        is_reached = before is not None and retention.reaches(each.began)
        kept = before.without_executions() if before is not None and is_reached else Recovery()
        updated[each.number] = _merge(each, kept, {})
    # Read all branches: a pattern may cover any of them.
    everywhere = observations.ObservedBranch(routing, retention, branch=None)
    ordered = sorted(unknown)
    # Read few tests at a time, because each may need the executions of a long time.
    for start in range(0, len(ordered), _TESTS_AT_ONCE):
        some = {test: unknown[test] for test in ordered[start : start + _TESTS_AT_ONCE]}
        begun = {test: min(each.began for each in of_test) for test, of_test in some.items()}
        pages = observations.scan_verdicts(cluster, everywhere, begun, take_turn)
        async with aclosing(pages):
            async for read in pages:
                await asyncio.to_thread(_merge_all, some, read, updated)


def _merge_all(
    unknown: _SlotsOfTests, read: observations.ReadExecutions, updated: list[QuarantineSlot]
) -> None:
    for test, found in read.by_test(unknown).items():
        evidence = collect_evidence((each.branch, each.observation) for each in found)
        for each in unknown[test]:
            record = updated[each.number].record or each.record
            updated[each.number] = _merge(each, record.recovery, evidence)


def _observe(
    executions: Sequence[MarkedExecution], failed_runs: Collection[str]
) -> Iterator[tuple[str, Observation]]:
    for execution in executions:
        if execution.branch is not None:
            yield execution.branch, execution.observe(failed_runs)


def _merge(
    held: _Held, before: Recovery | None, evidence: Mapping[str, BranchEvidence]
) -> QuarantineSlot:
    slot = held.slot
    covered = select_branches(evidence, slot.branch)
    recovery = (before or Recovery()).merge(covered, held.began)
    record = replace(held.record, is_recovered=recovery.is_recovered, recovery=recovery)
    return slot.holding(record)
