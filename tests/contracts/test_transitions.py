"""Changes of health, on any store: of all tests, and of one."""

from __future__ import annotations

from datetime import datetime

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import HealthStatus
from indexing.models.transitions import Transition, TransitionQuery
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import (
    FOREIGN,
    NOON,
    PULL,
    WIDGETS,
    after,
    load_history,
    make_executions,
    make_run,
)
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.walking import walk_forwards

P, F = Conclusion.PASSED, Conclusion.FAILED
HINGE = derive_test_id(WIDGETS, "hinge")
LONG_AGO, LATER = after(days=-30), after(days=1)
HEALTHY, FLAKY, BROKEN = HealthStatus.HEALTHY, HealthStatus.FLAKY, HealthStatus.BROKEN
pytestmark = on_stores_and_one_cache


def ask(
    *healths: HealthStatus,
    start: datetime = LONG_AGO,
    end: datetime = LATER,
    repository: RepositoryName = WIDGETS,
) -> TransitionQuery:
    return TransitionQuery(repository, start, end, healths)


async def read(store: Store, query: TransitionQuery) -> list[Transition]:
    return [*(await store.list_transitions(query, Anchor(), 100)).rows]


def shown(rows: list[Transition]) -> list[tuple[str, str, str, str, datetime]]:
    return [(r.test_name, r.job_name, r.previous, r.health, r.key.at) for r in rows]


async def load(store: Store) -> None:
    await load_history(store, "hinge", "linux", [P, F, F, F, P, P], end=-1)
    await load_history(store, "hinge", "mac", [P] * 3)
    await load_history(store, "latch", "linux", [F, P])
    await store.refresh_tests(NOON)


async def test_a_change_is_listed_once_newest_first(store: Store) -> None:
    await load(store)
    rows = await read(store, ask())
    assert shown(rows) == [
        ("latch", "linux", "broken", "healthy", NOON),
        ("hinge", "linux", "broken", "healthy", after(days=-2)),
        ("hinge", "linux", "healthy", "broken", after(days=-3)),
    ]
    assert {row.test_id for row in rows[1:]} == {HINGE}
    assert shown(await read(store, ask(BROKEN))) == shown(rows[2:])
    assert shown(await read(store, ask(HEALTHY, end=NOON))) == shown(rows[1:2])
    assert await read(store, ask(start=after(days=-1), end=NOON)) == []
    assert await read(store, ask(repository=FOREIGN)) == []


async def test_the_execution_shows_what_failed(store: Store) -> None:
    await load_history(store, "hinge", "unit", [P, F, F], end=-1)
    for hours, conclusion, kind in ((-2, F, "TimeoutError"), (-1, P, None)):
        run = make_run(str(hours), commit=f"at {hours}", pull=PULL if kind else None)
        executions = make_executions(
            run, [("hinge", conclusion)], after(hours=hours), failure_type=kind
        )
        await store.write_results(WIDGETS, {run: executions})
        await store.refresh_tests(NOON)
    # A commit that passed and failed on the newest day.
    run = make_run("again", commit="at -1")
    executions = make_executions(run, [("hinge", F)], NOON, failure_type="KeyError")
    await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    (row,) = await read(store, ask())
    assert (row.previous, row.health, row.key.at) == (HEALTHY, FLAKY, NOON)
    assert (row.exception_type, row.commit, row.pull_number) == ("KeyError", "at -1", None)
    await store.prune(after(days=1), NOON)
    (row,) = await read(store, ask())
    assert (row.health, row.exception_type, row.commit) == (FLAKY, None, None)


async def test_a_walk_meets_each_change_once_though_many_are_of_one_moment(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    names = [f"test {number}" for number in range(7)]
    for day, conclusion in enumerate([P, F, F, F]):
        run = make_run(str(day), commit=str(day))
        results = [(name, conclusion) for name in names]
        at = after(days=day - 3)
        await store.write_results(WIDGETS, {run: make_executions(run, results, at)})
    await store.refresh_tests(NOON)
    rows = await walk_forwards(lambda anchor: store.list_transitions(ask(), anchor, 2))
    assert sorted(row.test_name for row in rows) == names
    assert [row.key for row in rows] == sorted((row.key for row in rows), reverse=True)
    back = await store.list_transitions(ask(), Anchor(rows[4].key, backward=True), 2)
    assert list(back.rows) == rows[2:4]


async def test_without_flaky_detection_flaky_is_healthy(store: Store) -> None:
    await load_history(store, "hinge", "unit", [F, P, F, P, F, F, F])
    await store.refresh_tests(NOON)
    with_it = await read(store, ask())
    assert [row.health for row in with_it] == [BROKEN, FLAKY, HEALTHY]
    await store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    await store.refresh_tests(NOON)
    without = await read(store, ask())
    assert [(row.previous, row.health) for row in without] == [(HEALTHY, BROKEN), (BROKEN, HEALTHY)]
    assert await read(store, ask(FLAKY)) == []
    assert [row.health for row in await read(store, ask(HEALTHY))] == [HEALTHY]


async def test_what_is_shown_as_healthy_has_no_failure(store: Store) -> None:
    run = make_run("0", commit="a")
    await store.ensure_repository(WIDGETS)
    await store.write_results(WIDGETS, {run: make_executions(run, [("hinge", F)], after(days=-1))})
    run = make_run("1", commit="b")
    for hours, conclusion, kind in ((-1, F, "KeyError"), (0, P, None)):
        executions = make_executions(
            run, [("hinge", conclusion)], after(hours=hours), failure_type=kind
        )
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    (row,) = await read(store, ask())
    assert (row.previous, row.health, row.exception_type) == (BROKEN, FLAKY, "KeyError")
    await store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    await store.refresh_tests(NOON)
    (row,) = await read(store, ask())
    assert (row.previous, row.health, row.exception_type) == (BROKEN, HEALTHY, None)
    assert row.commit == "b"


async def test_the_first_activity_is_the_newest_of_its_day_in_any_job(store: Store) -> None:
    await load_history(store, "hinge", "linux", [P, P], end=-1)
    await store.refresh_tests(NOON)
    run = make_run("mac", job="mac")
    newest = after(days=-2, hours=3)
    await store.write_results(WIDGETS, {run: make_executions(run, [("hinge", P)], newest)})
    await store.refresh_tests(NOON)
    found = await store.list_transitions_of_test(WIDGETS, HINGE)
    assert found is not None
    assert found.first_activity_at == newest


async def test_the_changes_of_one_test(store: Store) -> None:
    await load(store)
    found = await store.list_transitions_of_test(WIDGETS, HINGE)
    assert found is not None
    assert shown(list(found.transitions)) == [
        ("hinge", "linux", "broken", "healthy", after(days=-2)),
        ("hinge", "linux", "healthy", "broken", after(days=-3)),
    ]
    assert found.first_activity_at == after(days=-6)
    await store.ensure_repository(FOREIGN)
    assert await store.list_transitions_of_test(FOREIGN, HINGE) is None
    assert await store.list_transitions_of_test(WIDGETS, derive_test_id(WIDGETS, "no")) is None
    run = make_run(branch="topic")
    await store.write_results(WIDGETS, {run: make_executions(run, [("elsewhere", P)], NOON)})
    await store.refresh_tests(NOON)
    elsewhere = await store.list_transitions_of_test(WIDGETS, derive_test_id(WIDGETS, "elsewhere"))
    assert elsewhere is not None
    assert (len(elsewhere.transitions), elsewhere.first_activity_at) == (0, None)
