"""Applies the rules of automatic quarantine, and updates which quarantined tests have recovered."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from indexing.health.observations import Judgement, Observation
from indexing.health.rollups import Job, Rollup
from indexing.identifiers import derive_quarantine_id
from indexing.models.quarantines import RULES, ChangeAction, QuarantineSource
from indexing.models.repositories import Repository
from indexing.notifications.rules import Subscription
from indexing.quarantine.changes import find_withdrawal_time
from indexing.quarantine.decision import JudgedState
from indexing.quarantine.past_states import PastStates
from indexing.quarantine.updates import (
    NewQuarantine,
    QuarantineState,
    QuarantineUpdate,
    RuleSettings,
    decide_update,
    is_settled,
)
from indexing.store.elasticsearch import quarantine_changes
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import observations
from indexing.store.elasticsearch.derived.dirty_markers import mark_changed
from indexing.store.elasticsearch.derived.recovery import judge_recovery
from indexing.store.elasticsearch.derived.rollups import RollupsOfTest
from indexing.store.elasticsearch.quarantine_slots import (
    QuarantineSlot,
    Record,
    read_slots,
    slot_of_hit,
    writing,
)
from indexing.store.elasticsearch.repositories import read_removal
from indexing.timestamps import microseconds_or_none, moment_or_none, to_microseconds

# A search reads the slots of all tests of a step at once.
_SLOTS_A_PAGE: Final = 2_000


@dataclass(frozen=True, slots=True)
class JudgedTest:
    """A judged test; `judge` judges it again by other roll-ups and observations."""

    test_id: str
    test_name: str
    rollups: RollupsOfTest
    judgement: Judgement
    judge: Callable[[Mapping[Job, Rollup], Sequence[Observation]], Judgement]

    @property
    def newest(self) -> datetime | None:
        return moment_or_none(self.rollups.newest)


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """The settings and data of a repository that quarantines of its tests depend on.

    `failed_runs` are the ids of the runs of new executions that failed as a whole. `removal` is the
    last deletion of results before these were read.
    """

    repository: Repository
    settings_version: int
    observed: observations.ObservedBranch
    now: datetime
    subscription: Subscription | None
    failed_runs: frozenset[str]
    removal: str


async def apply_rules(
    cluster: Cluster,
    rules: RuleInputs,
    tests: Sequence[JudgedTest],
    stored: Mapping[str, QuarantineSlot],
) -> tuple[frozenset[str], bool]:
    """Begin, reword and withdraw automatic quarantines; judge the recovery of every quarantine.

    `stored` has the slots of these tests by their ids, and may have slots of other tests. Returns
    the ids of the tests that need another pass, because another process has written their slots or
    deleted results, and whether anything was written.
    """
    routing = rules.observed.routing
    ids = {test.test_id for test in tests}
    slots = {
        (str(slot.test_id), slot.branch): slot
        for slot in stored.values()
        if str(slot.test_id) in ids
    }
    late: frozenset[str] = frozenset()
    if rules.repository.auto_quarantine:
        unknown = [
            QuarantineSlot(routing, uuid.UUID(test.test_id), test.test_name, None)
            for test in tests
            if (test.test_id, None) not in slots
        ]
        found = await read_slots(cluster, unknown)
        # A slot that was written since the search belongs to newer results than these.
        late = frozenset(str(slot.test_id) for slot in found if slot.version is not None)
        if late:
            # So that the next pass finds them.
            await cluster.connection.refresh(cluster.layout.quarantines)
        slots |= {(str(slot.test_id), None): slot for slot in found}
        slots = {place: slot for place, slot in slots.items() if place[0] not in late}
    changed = dict(slots)
    if rules.repository.auto_quarantine:
        for test in tests:
            if test.test_id not in late:
                place = (test.test_id, None)
                changed[place] = await _apply(cluster, rules, test, slots[place])
    rollups = {test.test_id: test.rollups for test in tests}
    after = await judge_recovery(
        cluster, routing, list(changed.values()), rollups, rules.failed_runs
    )
    written = [
        slot
        for slot in after
        # A killed call may have left changes that are not in the log of changes yet.
        if slot.unlisted or slot != slots[str(slot.test_id), slot.branch]
    ]
    outcomes = await bulk.send(
        cluster.connection, [writing(cluster, slot) for slot in written], visible=True
    )
    done = [slot for slot, outcome in zip(written, outcomes, strict=True) if outcome.done]
    await quarantine_changes.complete(cluster, done)
    again = frozenset(
        str(slot.test_id)
        for slot, outcome in zip(written, outcomes, strict=True)
        if not outcome.done
    )
    judged = frozenset(
        str(slot.test_id) for slot in done if slot != slots[str(slot.test_id), slot.branch]
    )
    if judged and await read_removal(cluster, routing) != rules.removal:
        # What they are based on may have been deleted, before the removal could find anything to
        # change in these slots. The markers of these tests may be gone.
        await mark_changed(cluster, routing, judged, removal=rules.removal)
        again |= judged
    return again | late, bool(written)


async def _apply(
    cluster: Cluster, rules: RuleInputs, test: JudgedTest, stored: QuarantineSlot
) -> QuarantineSlot:
    """Return the slot for all branches after applying the rules."""
    slot = stored.expired_by(rules.now)
    record = slot.record
    judged_until = _judged_until(record, rules)
    if record is not None and is_settled(
        microseconds_or_none(judged_until),
        to_microseconds(record.created_at),
        test.rollups.unchanged_until,
    ):
        return slot
    steps = decide_update(
        QuarantineState(
            is_in_force=record is not None,
            judged_until=judged_until,
            answered_until=slot.answered_until,
        ),
        now=rules.now,
        newest=test.newest,
        settings=RuleSettings.of(rules.repository),
    )
    past: PastStates | None = None
    try:
        moment = next(steps)
        while True:
            if test.newest is None or test.newest <= moment:
                state = JudgedState.of(test.judgement, test.rollups.rollups.values())
            else:
                if past is None:
                    past = await _read_past(cluster, rules, test)
                state = await asyncio.to_thread(past.until, to_microseconds(moment))
            moment = steps.send(state)
    except StopIteration as done:
        update: QuarantineUpdate = done.value
    reason = update.reason
    if reason is not None and record is not None and record.reason != reason:
        slot = slot.holding(replace(record, reason=reason))
        slot = slot.changed(ChangeAction.UPDATED, rules.now, RULES)
    if update.withdraw and record is not None:
        at = find_withdrawal_time(rules.now, record.created_at, begins_again=update.new is not None)
        slot = slot.changed(ChangeAction.TAKEN_BACK, at, RULES).holding(None)
    if update.new is not None:
        slot = slot.holding(_begin(update.new, slot, rules))
        slot = slot.changed(ChangeAction.ADDED, rules.now, RULES)
    return slot


def _judged_until(record: Record | None, rules: RuleInputs) -> datetime | None:
    # A decision is final once the settings that it was made under have changed.
    if record is None or record.settings_version != rules.settings_version:
        return None
    return record.judged_until


def _begin(new: NewQuarantine, slot: QuarantineSlot, rules: RuleInputs) -> Record:
    return Record(
        id=derive_quarantine_id(slot.test_id, slot.ended),
        reason=new.reason,
        source=QuarantineSource.AUTO,
        created_at=rules.now,
        judged_until=new.judged_until,
        settings_version=rules.settings_version,
    )


async def _read_past(cluster: Cluster, rules: RuleInputs, test: JudgedTest) -> PastStates:
    read = await observations.read_all(cluster, rules.observed, [test.test_id])
    seen = [each.observation for each in read[test.test_id]]
    return await asyncio.to_thread(PastStates, seen, test.rollups.rollups, test.judge)


def slots_search(cluster: Cluster, routing: str, tests: Sequence[str]) -> Search:
    """Return the search for the first page of slots, for use with `read_slots_of`."""
    filters = [{"term": {"repository_id": routing}}, {"terms": {"test_id": list(tests)}}]
    body = {
        "size": _SLOTS_A_PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"scope": "asc"}],
        "track_total_hits": False,
        "seq_no_primary_term": True,
    }
    return Search(cluster.layout.quarantines, body, routing)


async def read_slots_of(
    cluster: Cluster, routing: str, tests: Sequence[str], first: Any = None
) -> dict[str, QuarantineSlot]:
    """Return all stored slots of these tests by their ids.

    `first` is the response to `slots_search`, if the caller has it already.
    """
    search = slots_search(cluster, routing, tests)
    slots: dict[str, QuarantineSlot] = {}
    async for hits in scan(
        cluster.connection, search.index, search.body, routing=routing, first=first
    ):
        slots.update((slot.id, slot) for slot in map(slot_of_hit, hits))
    return slots
