"""Judges whether quarantined tests recovered, by later executions on the branches they cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from indexing.globs import matches
from indexing.health.recovery import is_recovered
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import observations
from indexing.store.elasticsearch.quarantine_slots import QuarantineSlot
from indexing.timestamps import to_microseconds

_SLOTS_AT_ONCE: Final = 20


async def judge_recovery(
    cluster: Cluster, routing: str, slots: Sequence[QuarantineSlot]
) -> list[QuarantineSlot]:
    """Return the slots of one repository with `is_recovered` up to date."""
    begun: dict[str, int] = {}
    for slot in slots:
        if slot.record is not None:
            test, moment = str(slot.test_id), to_microseconds(slot.record.created_at)
            begun[test] = min(moment, begun.get(test, moment))
    if not begun:
        return list(slots)
    retention = (await cluster.control.read()).retention
    # Read all branches: a pattern may cover any of them.
    everywhere = observations.ObservedBranch(routing, retention, branch=None)
    recovered: list[QuarantineSlot] = []
    # Few slots at a time, because each needs all executions since its beginning, maybe long ago.
    # Sorted by test, so that the slots of one test share them.
    ordered = sorted(slots, key=lambda slot: str(slot.test_id))
    for start in range(0, len(ordered), _SLOTS_AT_ONCE):
        some = ordered[start : start + _SLOTS_AT_ONCE]
        tests = {str(slot.test_id) for slot in some} & begun.keys()
        seen = await observations.read_since(
            cluster, everywhere, {test: begun[test] for test in tests}
        )
        recovered += (_judged(slot, seen.get(str(slot.test_id), [])) for slot in some)
    return recovered


def _judged(slot: QuarantineSlot, seen: Sequence[observations.OnBranch]) -> QuarantineSlot:
    record = slot.record
    if record is None:
        return slot
    covered = [
        each.observation
        for each in seen
        if each.observation.finished_at >= record.created_at
        and (slot.branch is None or matches(slot.branch, each.branch))
    ]
    return slot.holding(replace(record, is_recovered=is_recovered(covered)))
