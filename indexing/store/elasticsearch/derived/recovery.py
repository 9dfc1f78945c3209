"""Judges whether quarantined tests recovered, by later executions on the branches they cover."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from indexing.health.observations import Observation
from indexing.health.recovery import Recovery
from indexing.models.quarantines import covers_branch
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import observations
from indexing.store.elasticsearch.derived.marked_executions import MarkedExecution
from indexing.store.elasticsearch.derived.rollups import RollupsOfTest
from indexing.store.elasticsearch.quarantine_slots import QuarantineSlot, Record
from indexing.timestamps import to_microseconds

_SLOTS_AT_ONCE: Final = 20


async def judge_recovery(
    cluster: Cluster,
    routing: str,
    slots: Sequence[QuarantineSlot],
    changes: Mapping[str, RollupsOfTest] | None = None,
    failed_runs: Collection[str] = (),
) -> list[QuarantineSlot]:
    """Return the slots of one repository with `is_recovered` up to date.

    If `changes` has the new executions of a test, they are added to the stored recovery; of their
    runs, `failed_runs` failed as a whole. Otherwise, all executions since the quarantine began are
    read.
    """
    executions = {
        test: rollups.executions
        for test, rollups in (changes or {}).items()
        if rollups.executions is not None
    }
    updated: dict[int, QuarantineSlot] = {}
    unknown: list[tuple[int, QuarantineSlot, Record]] = []
    for number, slot in enumerate(slots):
        record = slot.record
        if record is None:
            updated[number] = slot
        elif record.recovery is None or str(slot.test_id) not in executions:
            unknown.append((number, slot, record))
    await _read_unknown(cluster, routing, unknown, updated)
    for number, slot in enumerate(slots):
        if number not in updated and slot.record is not None:
            new = executions[str(slot.test_id)]
            updated[number] = _merge(
                slot, slot.record, slot.record.recovery, _observe(new, failed_runs)
            )
    return [updated[number] for number in range(len(slots))]


async def _read_unknown(
    cluster: Cluster,
    routing: str,
    slots: Sequence[tuple[int, QuarantineSlot, Record]],
    updated: dict[int, QuarantineSlot],
) -> None:
    """Judge the slots by all executions since they began, and add them to `updated`."""
    if not slots:
        return
    begun: dict[str, int] = {}
    for _, slot, record in slots:
        test, moment = str(slot.test_id), to_microseconds(record.created_at)
        begun[test] = min(moment, begun.get(test, moment))
    retention = (await cluster.control.read()).retention
    # Read all branches: a pattern may cover any of them.
    everywhere = observations.ObservedBranch(routing, retention, branch=None)
    # Read few slots at a time, because each may need the executions of a long time. The slots are
    # sorted by test, so that slots of one test share its executions.
    ordered = sorted(slots, key=lambda each: str(each[1].test_id))
    for start in range(0, len(ordered), _SLOTS_AT_ONCE):
        some = ordered[start : start + _SLOTS_AT_ONCE]
        tests = {str(slot.test_id) for _, slot, _ in some}
        seen = await observations.read_since(
            cluster, everywhere, {test: begun[test] for test in tests}
        )
        for number, slot, record in some:
            found = seen.get(str(slot.test_id), [])
            on_branches = ((each.observation, each.branch) for each in found)
            before = record.recovery
            # Verdicts that passed and that retention has removed still count.
            if before is not None and retention.reaches(to_microseconds(record.created_at)):
                before = before.without_executions()
            else:
                before = None
            updated[number] = _merge(slot, record, before, on_branches)


def _observe(
    executions: Sequence[MarkedExecution], failed_runs: Collection[str]
) -> Iterator[tuple[Observation, str]]:
    for execution in executions:
        if execution.branch is not None:
            yield execution.observe(failed_runs), execution.branch


def _merge(
    slot: QuarantineSlot,
    record: Record,
    before: Recovery | None,
    seen: Iterator[tuple[Observation, str]],
) -> QuarantineSlot:
    since = to_microseconds(record.created_at)
    recovery = (before or Recovery()).merge(
        observation
        for observation, branch in seen
        if observation.at >= since and covers_branch(slot.branch, branch)
    )
    return slot.holding(replace(record, is_recovered=recovery.is_recovered, recovery=recovery))
