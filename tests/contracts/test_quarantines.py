"""Quarantines: one per test and branch, in force until removed or expired, oldest first."""

from __future__ import annotations

import itertools
import uuid
from functools import partial
from typing import Any

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    Quarantine,
    QuarantineKey,
    QuarantineQuery,
    QuarantineSource,
)
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.models.tests import TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import (
    FOREIGN,
    NOON,
    WIDGETS,
    after,
    load_names,
    make_executions,
    make_run,
)
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.quarantining import add
from tests.contracts.walking import a_few_times, walk_backwards, walk_forwards


def ask(**filters: Any) -> QuarantineQuery:
    asked: dict[str, Any] = {"repository": WIDGETS, "now": after(days=1)}
    return QuarantineQuery(**(asked | filters))


async def listed(store: Store, **filters: Any) -> list[Quarantine]:
    return list((await store.list_quarantines(ask(**filters), Anchor(), None)).rows)


async def test_a_quarantine_is_listed_and_found_by_its_id(store: Store) -> None:
    added = await add(store, branch="release/*", owner="mona", expires_at=after(days=9))
    assert added == Quarantine(
        key=QuarantineKey(NOON, added.key.id),
        test_name="t",
        reason="flaps",
        branch="release/*",
        source=QuarantineSource.MANUAL,
        is_recovered=False,
        owner="mona",
        expires_at=after(days=9),
    )
    assert await listed(store) == [added]
    found = await store.get_quarantine(
        RepositoryName("ACME", "Widgets"), added.key.id, after(days=1)
    )
    assert found == added


@on_stores_and_one_cache
async def test_the_status_counts_the_quarantines_in_force_at_its_moment(store: Store) -> None:
    for name, hours in (("a", None), ("b", 1), ("c", 2)):
        await add(store, name, expires_at=None if hours is None else after(hours=hours))

    async def count(hours: int) -> int:
        return (await store.get_status(after(hours=hours))).quarantines

    assert [await count(hours) for hours in (0, 1, 2)] == [3, 2, 1]
    # Stores may end what has expired with a later write.
    await load_names(store, ["a", "b", "c"])
    await store.prune(NOON, after(hours=1))
    await add(store, "d", after(hours=1))
    assert [await count(hours) for hours in (1, 2)] == [3, 2]
    (third,) = [row for row in await listed(store, now=after(hours=1)) if row.test_name == "c"]
    assert await store.remove_quarantine(WIDGETS, third.key.id, after(hours=1))
    assert [await count(hours) for hours in (1, 2)] == [2, 2]


async def test_quarantining_makes_a_repository_known(store: Store) -> None:
    await add(store)
    assert await store.find_repository(WIDGETS) is not None


async def test_ids_of_another_repository_and_unknown_ids_are_not_found(store: Store) -> None:
    added = await add(store)
    await store.ensure_repository(FOREIGN)
    assert await store.get_quarantine(FOREIGN, added.key.id, NOON) is None
    assert await store.get_quarantine(WIDGETS, uuid.uuid4(), NOON) is None
    assert not await store.remove_quarantine(FOREIGN, added.key.id, NOON)
    assert await listed(store, repository=FOREIGN) == []
    assert await listed(store) == [added]


async def test_the_same_test_and_branch_again_is_one_record_with_what_is_new(
    store: Store,
) -> None:
    first = await add(store, branch="main", expires_at=after(days=2))
    again = await add(store, at=after(hours=1), branch="main", reason="still flaps", owner="hub")
    assert again.key == first.key
    assert (again.reason, again.owner, again.expires_at) == ("still flaps", "hub", None)
    assert await listed(store) == [again]


async def test_every_branch_and_each_branch_are_different_quarantines(store: Store) -> None:
    added = [await add(store, at=after(seconds=n), branch=b) for n, b in enumerate([None, "a", ""])]
    assert await listed(store) == added


async def test_a_removed_quarantine_is_gone_and_a_new_one_is_another(store: Store) -> None:
    first = await add(store)
    assert await store.remove_quarantine(WIDGETS, first.key.id, after(hours=1))
    assert not await store.remove_quarantine(WIDGETS, first.key.id, after(hours=1))
    assert await listed(store) == []
    second = await add(store, at=after(hours=2))
    assert second.key.id != first.key.id
    assert await listed(store) == [second]


async def test_an_expired_quarantine_is_over_from_that_moment_on(store: Store) -> None:
    first = await add(store, expires_at=after(hours=1))
    assert await listed(store, now=after(minutes=59)) == [first]
    assert await listed(store, now=after(hours=1)) == []
    assert await store.get_quarantine(WIDGETS, first.key.id, after(hours=1)) is None
    assert not await store.remove_quarantine(WIDGETS, first.key.id, after(hours=1))
    second = await add(store, at=after(hours=2))
    assert second.key.id != first.key.id


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["all", "exact", "pattern", "other"]),
    ({"branch": "main"}, ["all", "exact"]),
    ({"branch": "release/1/2"}, ["all", "pattern"]),
    ({"branch": "*"}, ["all"]),
    ({"branch": "Main"}, ["all"]),
    ({"test_id": derive_test_id(WIDGETS, "exact")}, ["exact"]),
    ({"test_id": derive_test_id(FOREIGN, "exact")}, []),
    ({"source": QuarantineSource.AUTO}, ["other"]),
    ({"source": QuarantineSource.MANUAL, "branch": "[x]"}, ["all"]),
    ({"branch": "[x]"}, ["all", "other"]),
]


async def test_filters_combine(store: Store) -> None:
    requested: list[tuple[str, str | None, QuarantineSource]] = [
        ("all", None, QuarantineSource.MANUAL),
        ("exact", "main", QuarantineSource.MANUAL),
        ("pattern", "release/*", QuarantineSource.MANUAL),
        ("other", "[x]", QuarantineSource.AUTO),
    ]
    for number, (name, branch, source) in enumerate(requested):
        await add(store, name, after(seconds=number), branch=branch, source=source)
    for filters, expected in FILTERS:
        assert [q.test_name for q in await listed(store, **filters)] == expected, filters


async def test_a_walk_meets_every_row_once_while_others_come_and_go(store: Store) -> None:
    added = [
        await add(store, f"t{n}", after(seconds=n // 5), branch=["main", "next", None][n % 3])
        for n in range(30)
    ]
    expected = sorted(q.key for q in added if q.branch != "next")
    newcomers = iter(range(10_000))

    async def read(limit: int, anchor: Anchor[QuarantineKey]) -> Page[Quarantine]:
        return await store.list_quarantines(ask(branch="main"), anchor, limit)

    async def come_and_go() -> None:
        brief = await add(store, f"brief{next(newcomers)}", after(seconds=2))
        await store.remove_quarantine(WIDGETS, brief.key.id, after(seconds=3))

    for walk, limit in itertools.product((walk_forwards, walk_backwards), (1, 2, 100)):
        found = await walk(partial(read, limit), a_few_times(come_and_go))
        assert [q.key for q in found] == expected, (walk, limit)


async def test_a_test_recovers_after_ten_passed_commits_on_the_branches_covered(
    store: Store,
) -> None:
    await store.ensure_repository(WIDGETS)

    async def run(commit: str, branch: str, conclusion: Conclusion, hours: float) -> None:
        job_run = make_run(commit, commit=commit, branch=branch)
        executions = make_executions(job_run, [("t", conclusion)], after(hours=hours))
        await store.write_results(WIDGETS, {job_run: executions})
        await store.refresh_tests(NOON)

    async def recovered() -> list[bool]:
        return [q.is_recovered for q in await listed(store)]

    await run("before", "main", Conclusion.FAILED, -1)
    await add(store, branch="main")
    await add(store, at=after(seconds=1))
    for number in range(9):
        await run(f"c{number}", "main", Conclusion.PASSED, 1 + number)
    assert await recovered() == [False, False]
    await run("c9", "feature", Conclusion.PASSED, 10)
    assert await recovered() == [False, True]
    await run("c10", "main", Conclusion.PASSED, 11)
    assert await recovered() == [True, True]
    await run("c11", "feature", Conclusion.FAILED, 12)
    assert await recovered() == [True, False]


async def test_a_pattern_covers_no_branch_that_is_too_long_to_be_asked_for(store: Store) -> None:
    longest = "m" * 255
    await store.set_repository(WIDGETS, RepositoryChange(default_branch=longest), NOON)
    for pattern in (None, "m*", "m" * 256):
        await add(store, branch=pattern)
        await add(store, f"of {pattern}", branch=pattern)

    async def run(name: str, number: int, branch: str) -> None:
        job_run = make_run(f"{number} {branch}", commit=f"c{number}", branch=branch)
        executions = make_executions(job_run, [(name, Conclusion.PASSED)], after(hours=number))
        await store.write_results(WIDGETS, {job_run: executions})
        await store.refresh_tests(NOON)

    async def recovered() -> dict[str | None, bool]:
        return {q.branch: q.is_recovered for q in await listed(store) if q.test_name == "t"}

    for number in range(1, 11):
        await run("t", number, "m" * 256)
    assert await recovered() == {None: True, "m*": False, "m" * 256: True}
    for number in range(11, 21):
        await run("t", number, longest)
    assert await recovered() == {None: True, "m*": True, "m" * 256: True}

    async def find_quarantined() -> list[str]:
        query = TestQuery(
            WIDGETS, ("of *",), TestSort.TEST_NAME, descending=False, quarantined=True, now=NOON
        )
        return [row.key.test_name for row in (await store.search_tests(query, Anchor(), 9)).rows]

    for name in ("of None", "of m*", "of " + "m" * 256):
        await run(name, 30, longest)
        await run(name, 31, "m" * 256)
    assert await find_quarantined() == ["of None", "of m*"]
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="m" * 256), NOON)
    await store.refresh_tests(NOON)
    assert await find_quarantined() == ["of None", "of " + "m" * 256]


async def test_a_test_that_recovered_stays_so_when_retention_removes_its_results(
    store: Store,
) -> None:
    await store.ensure_repository(WIDGETS)
    await add(store)

    async def run(day: int, conclusion: Conclusion) -> list[bool]:
        job_run = make_run(str(day), commit=f"c{day}")
        executions = make_executions(job_run, [("t", conclusion)], after(days=day, hours=1))
        await store.write_results(WIDGETS, {job_run: executions})
        await store.refresh_tests(NOON)
        return [q.is_recovered for q in await listed(store)]

    for day in range(8):
        assert await run(day, Conclusion.PASSED) == [False]
    # Passed results count towards recovery even if they are gone when the last ones arrive.
    await store.prune(after(days=6), NOON)
    assert await run(8, Conclusion.PASSED) == [False]
    assert await run(9, Conclusion.PASSED) == [True]
    await store.prune(after(days=9), NOON)
    assert [q.is_recovered for q in await listed(store)] == [True]
    await store.rebuild(NOON)
    assert [q.is_recovered for q in await listed(store)] == [True]
    assert await run(10, Conclusion.FAILED) == [False]


async def test_results_that_are_undone_no_longer_count_until_retention_reaches_the_quarantine(
    store: Store,
) -> None:
    await store.ensure_repository(WIDGETS)
    await add(store)

    async def run(number: int) -> None:
        job_run = make_run(str(number), commit=f"c{number}")
        executions = make_executions(job_run, [("t", Conclusion.PASSED)], after(minutes=number))
        await store.write_results(WIDGETS, {job_run: executions})
        await store.refresh_tests(NOON)

    async def undo(number: int) -> list[bool]:
        selection = ExecutionSelection(WIDGETS, run_id=str(number))
        assert await store.remove_executions(selection, NOON) == 1
        return [q.is_recovered for q in await listed(store)]

    for number in range(1, 11):
        await run(number)
    assert [q.is_recovered for q in await listed(store)] == [True]
    # On the day of the quarantine, but before it.
    await store.prune(after(hours=-1), NOON)
    assert await undo(10) == [False]
    await run(10)
    # It is not kept which results had shown the recovery.
    await store.prune(after(minutes=5), NOON)
    assert await undo(9) == [True]


async def test_passes_that_are_removed_together_with_a_failure_do_not_count(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    await add(store)
    for day in range(12):
        run = make_run(str(day), commit=f"c{day}")
        conclusion = Conclusion.PASSED if day else Conclusion.FAILED
        executions = make_executions(run, [("t", conclusion)], after(days=day, hours=1))
        await store.write_results(WIDGETS, {run: executions})
        await store.refresh_tests(NOON)
    # Nine passes are left after the failure and two of the passes are gone.
    await store.prune(after(days=3), NOON)
    assert [q.is_recovered for q in await listed(store)] == [False]
