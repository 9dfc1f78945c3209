"""Clears what arrived for a test while it was forgotten: results, and an automatic quarantine.

Both would count for the next test of that name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from indexing.models.quarantines import RULES, ChangeAction, QuarantineSource
from indexing.store.elasticsearch import quarantine_changes
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.client.existing_ids import find_existing
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.dirty_markers import mark_changed
from indexing.store.elasticsearch.derived.removed_results import delete_results
from indexing.store.elasticsearch.quarantine_slots import (
    QuarantineSlot,
    read_slots,
    try_write_slot,
)


class Cleared(NamedTuple):
    """Whether results were deleted, and whether quarantines were withdrawn."""

    results: bool
    quarantines: bool


async def clear_forgotten(
    cluster: Cluster,
    routing: str,
    tests: Collection[str],
    slots: Iterable[QuarantineSlot],
    now: datetime,
) -> Cleared:
    """Delete the results of those tests that are not registered, and withdraw their quarantines.

    `slots` are those of these tests and of others. The executions must be searchable already.
    """

    async def select_lost(hits: Sequence[Hit]) -> Sequence[Hit]:
        # After the search: later loads may have registered a test again, for later results.
        there = await _find_registered(cluster, routing, {h["_source"]["test_id"] for h in hits})
        return [hit for hit in hits if hit["_source"]["test_id"] not in there]

    filters = [{"term": {"repository_id": routing}}, {"terms": {"test_id": sorted(tests)}}]
    query = {"bool": {"filter": filters}}
    deleted = await delete_results(cluster, routing, query, select_lost)
    quarantined = [slot for slot in slots if str(slot.test_id) in tests and _is_automatic(slot)]
    withdrawn = await _withdraw_forgotten(cluster, routing, quarantined, now)
    return Cleared(results=deleted > 0, quarantines=withdrawn)


async def _withdraw_forgotten(
    cluster: Cluster, routing: str, slots: Sequence[QuarantineSlot], now: datetime
) -> bool:
    """Withdraw the quarantines of those tests that are not registered; return whether any was."""
    if not slots:
        return False
    there = await _find_registered(cluster, routing, {str(slot.test_id) for slot in slots})
    gone = [slot for slot in slots if str(slot.test_id) not in there]
    for slot in gone:
        await withdraw_automatic(cluster, slot, now)
    # Later loads may have registered a test meanwhile, and begun the quarantine that was withdrawn.
    tests = await _find_registered(cluster, routing, {str(slot.test_id) for slot in gone})
    if tests:
        await mark_changed(cluster, routing, tests)
    return bool(gone)


async def withdraw_automatic(cluster: Cluster, slot: QuarantineSlot, now: datetime) -> None:
    """Withdraw the automatic quarantine in that slot if there is one, even a final one.

    The slot need not be as stored; it may never have been.
    """
    done = False
    while not done:
        (stored,) = await read_slots(cluster, [slot])
        changed = stored.expired_by(now)
        if _is_automatic(changed):
            changed = changed.changed(ChangeAction.TAKEN_BACK, now, RULES).holding(None)
        # The test is forgotten, and so is what webhooks were notified of.
        changed = replace(changed, notified_at=None)
        done = changed == stored or await try_write_slot(cluster, changed)
    # A killed call may have left changes that are not in the log of changes yet.
    await quarantine_changes.complete(cluster, [changed])


def _is_automatic(slot: QuarantineSlot) -> bool:
    return slot.record is not None and slot.record.source is QuarantineSource.AUTO


async def _find_registered(cluster: Cluster, routing: str, tests: Iterable[str]) -> Collection[str]:
    return await find_existing(cluster.connection, cluster.layout.tests, sorted(tests), routing)
