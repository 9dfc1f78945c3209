"""Every change of a quarantine is listed, with who made it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from indexing.health.window import day_of
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    RULES,
    UNKNOWN,
    Actor,
    ActorKind,
    ChangeAction,
    QuarantineChange,
    QuarantineChangeKey,
    QuarantineQuery,
    QuarantineRequest,
)
from indexing.models.repositories import RepositoryChange
from indexing.models.trends import DayQuery, Stat
from indexing.names import RepositoryName
from indexing.store.interface import Store
from indexing.store.series import read_series
from tests.builders import GADGETS, NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.walking import walk_both_ways

MONA = Actor(ActorKind.KEY, "mona's key", "k-1")
ROOT = Actor(ActorKind.USER, "root")
FAR = after(days=3_000)


async def read(
    store: Store, *, now: datetime = FAR, limit: int = 3, repository: RepositoryName = WIDGETS
) -> list[QuarantineChange]:
    """Return all changes, after walking them from both ends."""

    async def read_page(anchor: Anchor[QuarantineChangeKey]) -> Page[QuarantineChange]:
        return await store.list_quarantine_changes(repository, now, anchor, limit)

    return await walk_both_ways(read_page)


def told(changes: list[QuarantineChange]) -> list[tuple[ChangeAction, str, Actor | None]]:
    return [(change.action, change.test_name, change.actor) for change in changes]


async def test_changes_by_people_are_listed_newest_first(store: Store) -> None:
    request = QuarantineRequest("a", "flaps", branch="main", actor=MONA)
    added, _ = await store.add_quarantine(WIDGETS, request, NOON)
    await store.add_quarantine(WIDGETS, QuarantineRequest("b", "flaps"), after(minutes=1))
    again = QuarantineRequest("a", "flaps still", branch="main", actor=ROOT)
    same, is_new = await store.add_quarantine(WIDGETS, again, after(minutes=2))
    assert (same.key, is_new) == (added.key, False)
    assert await store.remove_quarantine(WIDGETS, added.key.id, after(minutes=3), MONA)
    assert not await store.remove_quarantine(WIDGETS, added.key.id, after(minutes=4), MONA)
    changes = await read(store)
    assert told(changes) == [
        (ChangeAction.REMOVED, "a", MONA),
        (ChangeAction.UPDATED, "a", ROOT),
        (ChangeAction.ADDED, "b", UNKNOWN),
        (ChangeAction.ADDED, "a", MONA),
    ]
    assert [change.key.at for change in changes] == [after(minutes=n) for n in (3, 2, 1, 0)]
    assert [change.reason for change in changes[:2]] == ["flaps still"] * 2
    assert changes[-1].quarantine_id == added.key.id
    assert changes[-1].branch == "main"
    assert await read(store, repository=GADGETS) == []


async def test_a_repeated_request_that_changes_nothing_is_no_change(store: Store) -> None:
    request = QuarantineRequest("a", "flaps", owner="mona", expires_at=FAR, actor=MONA)
    added, _ = await store.add_quarantine(WIDGETS, request, NOON)
    for number in (1, 2):
        same, is_new = await store.add_quarantine(WIDGETS, request, after(minutes=number))
        assert (same, is_new) == (added, False)
    assert told(await read(store, now=NOON)) == [(ChangeAction.ADDED, "a", MONA)]
    other = replace(request, expires_at=None, actor=ROOT)
    await store.add_quarantine(WIDGETS, other, after(minutes=3))
    assert told(await read(store, now=after(minutes=4))) == [
        (ChangeAction.UPDATED, "a", ROOT),
        (ChangeAction.ADDED, "a", MONA),
    ]


async def test_a_quarantine_that_ended_begins_as_a_new_one(store: Store) -> None:
    request = QuarantineRequest("a", "flaps")
    first, is_new = await store.add_quarantine(WIDGETS, request, NOON)
    assert is_new
    await store.remove_quarantine(WIDGETS, first.key.id, after(minutes=1))
    second, is_new = await store.add_quarantine(WIDGETS, request, after(minutes=2))
    assert is_new
    assert second.key.id != first.key.id


async def test_an_expiry_is_listed_at_its_moment_whatever_comes_after(store: Store) -> None:
    expiring = QuarantineRequest("a", "flaps", expires_at=after(hours=1))
    await store.add_quarantine(WIDGETS, expiring, NOON)
    await store.add_quarantine(WIDGETS, QuarantineRequest("b", "x"), after(hours=2))
    assert told(await read(store, now=after(minutes=59)))[1:] == [
        (ChangeAction.ADDED, "a", UNKNOWN)
    ]
    expected = [
        (ChangeAction.ADDED, "b", UNKNOWN),
        (ChangeAction.EXPIRED, "a", None),
        (ChangeAction.ADDED, "a", UNKNOWN),
    ]
    before = await read(store)
    assert told(before) == expected
    # A new quarantine ends the expired one: the list stays as it was.
    await store.add_quarantine(WIDGETS, QuarantineRequest("a", "again"), after(hours=3))
    assert (await read(store))[1:] == before


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_pages_meet_every_change_once_in_both_directions(store: Store, limit: int) -> None:
    for number in range(4):
        moment = after(minutes=number // 2)
        expiring = QuarantineRequest(f"t{number}", "x", expires_at=after(minutes=2))
        await store.add_quarantine(WIDGETS, expiring, moment)
    everything = await read(store, limit=100)
    assert len(everything) == 8
    assert sorted(everything, key=lambda change: change.key, reverse=True) == everything
    assert await read(store, limit=limit) == everything


async def test_the_rules_are_the_actor_of_what_they_do(store: Store) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)

    async def load(number: int, conclusion: Conclusion) -> None:
        run = make_run(str(number), commit=f"c{number}")
        executions = make_executions(run, [("t", conclusion)], after(minutes=number))
        await store.write_results(WIDGETS, {run: executions})

    await load(10, Conclusion.FAILED)
    await store.refresh_tests(after(hours=1))
    assert told(await read(store)) == [(ChangeAction.ADDED, "t", RULES)]
    # Results that arrive late show that it was never broken.
    for number in (1, 2, 3):
        await load(number, Conclusion.PASSED)
    await store.refresh_tests(after(hours=2))
    changes = await read(store)
    assert told(changes) == [
        (ChangeAction.TAKEN_BACK, "t", RULES),
        (ChangeAction.ADDED, "t", RULES),
    ]
    await store.refresh_tests(after(hours=3))
    await store.rebuild(after(hours=3))
    assert await read(store) == changes


async def test_the_end_of_a_quarantine_is_later_than_its_beginning(store: Store) -> None:
    failed = Conclusion.FAILED
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    for number in range(4):
        run = make_run(str(number), commit=f"c{number}")
        executions = make_executions(run, [("t", failed)], after(minutes=number))
        await store.write_results(WIDGETS, {run: executions})
    # The command that forgets the test, or that ends the other quarantine, began earlier.
    began, quarantined = after(hours=1), after(hours=2)
    await store.refresh_tests(quarantined, repository=WIDGETS)
    await store.forget_test(WIDGETS, "t", began)
    added, _ = await store.add_quarantine(WIDGETS, QuarantineRequest("u", "flaps"), quarantined)
    assert await store.remove_quarantine(WIDGETS, added.key.id, began, MONA)
    ends = {ChangeAction.TAKEN_BACK, ChangeAction.REMOVED}
    changes = await read(store)
    assert [change.action in ends for change in changes] == [True, True, False, False]
    query = DayQuery(WIDGETS, day_of(NOON) - 3, day_of(NOON))
    series = await read_series(
        store, store.count_health, Stat.QUARANTINED_TESTS, query, after(hours=3)
    )
    assert [bar.value for bar in series.value_over_time] == [0] * 4


@pytest.mark.parametrize("final", ["auto-quarantine off", "retention"])
async def test_forgetting_a_test_withdraws_even_a_final_automatic_quarantine(
    store: Store, final: str
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    for number, conclusion in ((-1_000, Conclusion.PASSED), (1, Conclusion.FAILED)):
        run = make_run(str(number), commit=f"c{number}", job=f"job{number}")
        executions = make_executions(run, [("t", conclusion)], after(hours=number))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(after(days=1))
    if final == "retention":
        await store.prune(after(hours=-900), after(days=1))
    else:
        await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=False), after(days=1))
    await store.forget_test(WIDGETS, "t", after(days=3))
    await store.forget_test(WIDGETS, "t", after(days=4))
    changes = await read(store)
    assert told(changes) == [
        (ChangeAction.TAKEN_BACK, "t", RULES),
        (ChangeAction.ADDED, "t", RULES),
    ]
    assert [change.key.at for change in changes] == [after(days=3), after(days=1)]
    query = DayQuery(WIDGETS, day_of(NOON), day_of(after(days=4)))
    series = await read_series(
        store, store.count_health, Stat.QUARANTINED_TESTS, query, after(days=4)
    )
    assert [bar.value for bar in series.value_over_time] == [0, 1, 1, 0, 0]


async def test_retention_removes_old_changes(store: Store) -> None:
    for number in range(3):
        request = QuarantineRequest(f"t{number}", "x")
        await store.add_quarantine(WIDGETS, request, after(days=number))
    await store.prune(after(days=1), after(days=2))
    assert [change.test_name for change in await read(store)] == ["t2", "t1"]


async def test_retention_removes_old_expiries_that_no_write_has_recorded(store: Store) -> None:
    for name, days in (("a", 1), ("b", 2), ("c", 3)):
        request = QuarantineRequest(name, "x", expires_at=after(days=days))
        await store.add_quarantine(WIDGETS, request, after(hours=days))
    # The end of the second lies before the cutoff, but not in the past.
    await store.prune(after(days=2.5), after(days=1.5))
    in_force = QuarantineQuery(WIDGETS, after(days=1.5))
    left = (await store.list_quarantines(in_force, Anchor(), None)).rows
    assert [quarantine.test_name for quarantine in left] == ["b", "c"]
    expiries = [(ChangeAction.EXPIRED, name, None) for name in "cb"]
    assert told(await read(store)) == expiries
    await store.add_quarantine(WIDGETS, QuarantineRequest("a", "x"), after(days=4))
    assert told(await read(store)) == [(ChangeAction.ADDED, "a", UNKNOWN), *expiries]
    await store.prune(after(days=2.5), after(days=4))
    assert told(await read(store))[1:] == expiries[:1]
