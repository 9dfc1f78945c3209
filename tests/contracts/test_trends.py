"""Series by day, on any store, compared with a slow computation of all results."""

from __future__ import annotations

from collections import Counter

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.models.trends import DayQuery, DaySums
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import (
    FOREIGN,
    NOON,
    WIDGETS,
    after,
    load_history,
    load_names,
    make_executions,
    make_run,
)
from tests.contracts.conftest import on_stores_and_one_cache

P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
TODAY = day_of(NOON)
pytestmark = on_stores_and_one_cache


def days(first: int, last: int = 0, repository: RepositoryName = WIDGETS) -> DayQuery:
    """Return a query for days relative to today."""
    return DayQuery(repository, TODAY + first, TODAY + last)


async def read_sums(store: Store, query: DayQuery) -> dict[int, DaySums]:
    """Return the sums by day relative to today."""
    return {day - TODAY: sums for day, sums in (await store.sum_days(query)).items()}


async def read_health(store: Store, query: DayQuery) -> dict[int, dict[str, int]]:
    """Return the number of tests by health at the end of each day relative to today."""
    counted = await store.count_health(query)
    counts: Counter[str] = Counter(counted.before)
    found = {}
    for day in range(query.first_day, query.last_day + 1):
        counts.update(counted.changes.get(day, {}))
        found[day - TODAY] = {health: count for health, count in counts.items() if count}
    return found


async def test_executions_are_summed_by_day_pipeline_and_job(store: Store) -> None:
    await load_history(store, "hinge", "linux", [P, F, P], duration=0.5)
    await load_history(store, "latch", "linux", [S, P], duration=1.25)
    await load_history(store, "hinge", "mac", [F])
    run = make_run("elsewhere", branch="topic")
    await store.write_results(WIDGETS, {run: make_executions(run, [("hinge", P)], NOON)})
    await load_names(store, ["foreign"], repository=FOREIGN)
    await store.refresh_tests(NOON)
    assert await read_sums(store, days(-10)) == {
        -2: DaySums(1, 0, 0, 1, 500_000),
        -1: DaySums(0, 1, 1, 2, 1_750_000),
        0: DaySums(2, 1, 0, 2, 1_750_000),
    }
    assert set(await read_sums(store, days(-1, -1))) == {-1}
    of_job = DayQuery(WIDGETS, TODAY - 5, TODAY, ("ci",), ("mac", "none"))
    assert await store.sum_days(of_job) == {TODAY: DaySums(0, 1)}
    assert await store.sum_days(DayQuery(WIDGETS, 0, TODAY, ("other",))) == {}
    assert await store.sum_days(days(-10, repository=RepositoryName("no", "such"))) == {}


async def test_a_run_over_midnight_counts_on_both_days(store: Store) -> None:
    run = make_run("night")
    await store.ensure_repository(WIDGETS)
    for name, ago in (("hinge", 1), ("latch", 0), ("door", 1)):
        executions = make_executions(run, [(name, P)], after(days=-ago))
        await store.write_results(WIDGETS, {run: executions})
        await store.refresh_tests(NOON, repository=WIDGETS)
    assert await read_sums(store, days(-2)) == {-1: DaySums(2), 0: DaySums(1)}


async def test_the_health_of_tests_goes_on_until_it_changes(store: Store) -> None:
    await load_history(store, "hinge", "unit", [P, P, F, F, F], end=-1)
    await load_history(store, "latch", "unit", [P], end=-4)
    await load_names(store, ["foreign"], repository=FOREIGN)
    await store.refresh_tests(NOON)
    assert await read_health(store, days(-6)) == {
        -6: {},
        -5: {"healthy": 1},
        -4: {"healthy": 2},
        -3: {"healthy": 2},
        -2: {"healthy": 2},
        -1: {"healthy": 1, "broken": 1},
        0: {"healthy": 1, "broken": 1},
    }
    assert await read_health(store, days(0)) == {0: {"healthy": 1, "broken": 1}}


async def test_a_test_is_as_its_worst_live_job(store: Store) -> None:
    await load_history(store, "hinge", "linux", [P] * 12)
    await load_history(store, "hinge", "mac", [F], end=-10)
    await store.refresh_tests(NOON)
    found = await read_health(store, days(-12))
    assert [found[day] for day in (-11, -10, -2, -1)] == [
        {"healthy": 1},
        {"broken": 1},
        {"broken": 1},
        {"healthy": 1},
    ]


async def test_flaky_verdicts_count_on_the_day_on_which_they_began(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    for number, (conclusion, at) in enumerate([(F, after(days=-3)), (P, NOON)]):
        run = make_run(str(number), commit="same")
        executions = make_executions(run, [("hinge", conclusion), ("latch", P)], at)
        await store.write_results(WIDGETS, {run: executions})
        await store.refresh_tests(NOON)
    assert await store.count_flaky_verdicts(days(-5)) == {TODAY - 3: 1}
    assert await store.count_flaky_verdicts(DayQuery(WIDGETS, 0, TODAY, (), ("none",))) == {}
    assert await store.count_flaky_verdicts(days(-2)) == {}
    assert await read_health(store, days(-1)) == {
        -1: {"broken": 1, "healthy": 1},
        0: {"flaky": 1, "healthy": 1},
    }


async def test_a_flaky_verdict_that_goes_on_counts_once_whatever_retention_removes(
    store: Store,
) -> None:
    for day in range(-12, 1):
        await run_commit(store, F if day % 2 else P, day)
        await store.prune(after(days=day - 3, hours=1), NOON)
        counted = {TODAY - 12: 1} if day > -12 else {}
        assert await store.count_flaky_verdicts(days(-20)) == counted
    await store.rebuild(NOON)
    assert await store.count_flaky_verdicts(days(-20)) == counted
    test = derive_test_id(WIDGETS, "hinge")
    sums = await store.sum_days_of_test(days(-20), test)
    assert sums is not None
    assert {day - TODAY: of_day.flaky_verdicts for day, of_day in sums.items()} == dict.fromkeys(
        range(-2, 1), 0
    )


async def test_a_verdict_that_turns_flaky_after_retention_reached_it_counts_once(
    store: Store,
) -> None:
    for day in (-9, -6, -5, -4):
        await run_commit(store, P, day)
    await store.prune(after(days=-7), NOON)
    for day in range(-3, 1):
        await run_commit(store, F, day)
        await store.prune(after(days=day - 3, hours=1), NOON)
        assert await store.count_flaky_verdicts(days(-20)) == {TODAY - 6: 1}


async def test_a_flaky_verdict_counts_on_a_later_day_if_its_first_one_is_undone(
    store: Store,
) -> None:
    for number, conclusion in enumerate([P, F, P, F]):
        await run_commit(store, conclusion, number - 3)
    undone = ExecutionSelection(WIDGETS, run_id="-3", test_name="hinge")
    await store.remove_executions(undone, NOON)
    assert await store.count_flaky_verdicts(days(-5)) == {TODAY - 2: 1}


async def run_commit(store: Store, conclusion: Conclusion, day: int) -> None:
    """Run one commit once more, on a day relative to today."""
    run = make_run(str(day), commit="same")
    await store.ensure_repository(WIDGETS)
    executions = make_executions(run, [("hinge", conclusion)], after(days=day))
    await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)


async def test_days_outlive_their_executions(store: Store) -> None:
    await load_history(store, "hinge", "unit", [P, F, F, F, F, P, P, P], duration=0.5)
    await load_history(store, "latch", "unit", [P], end=-7)
    await store.refresh_tests(NOON)
    sums, health = await read_sums(store, days(-9)), await read_health(store, days(-9))
    flaky = await store.count_flaky_verdicts(days(-9))
    await store.prune(after(days=-4.2), NOON)
    assert await store.find_final_day() == TODAY - 4
    for _ in range(2):
        assert await read_sums(store, days(-9)) == sums
        assert await read_health(store, days(-9)) == health
        assert await store.count_flaky_verdicts(days(-9)) == flaky
        await store.rebuild(NOON)
    # What arrives for a day that retention has reached changes nothing.
    await load_history(store, "latch", "unit", [F], end=-5)
    await store.refresh_tests(NOON)
    assert await read_sums(store, days(-9)) == sums
    assert await read_health(store, days(-9)) == health
    await store.prune(after(days=-4.1), NOON, rollups_before=after(days=-6))
    assert await read_sums(store, days(-9)) == {d: s for d, s in sums.items() if d >= -6}


async def test_what_is_removed_or_forgotten_is_gone_from_later_days(store: Store) -> None:
    await load_history(store, "hinge", "unit", [P, F, F, F])
    await load_history(store, "latch", "slow", [P, F])
    await store.refresh_tests(NOON)
    await store.remove_executions(ExecutionSelection(WIDGETS, job_name="slow"), NOON)
    assert (await read_sums(store, days(-1)))[0] == DaySums(0, 1)
    assert (await read_health(store, days(0)))[0] == {"broken": 1}
    await store.forget_test(WIDGETS, "hinge", NOON)
    assert await read_sums(store, days(-9)) == {}
    assert await read_health(store, days(0)) == {0: {}}
    await load_history(store, "hinge", "unit", [P])
    await store.refresh_tests(NOON)
    assert await read_health(store, days(0)) == {0: {"healthy": 1}}


async def test_durations_of_half_a_microsecond_are_the_same_after_a_removal(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    halves = (0.5, 1.5, 2.5, 3.5)
    for number, half in enumerate((*halves, 9)):
        run = make_run(job="unit")
        results = [(f"test {number}", P)]
        executions = make_executions(run, results, NOON, duration=half / 1_000_000)
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    assert await read_sums(store, days(0)) == {0: DaySums(5, 0, 0, 5, 0 + 2 + 2 + 4 + 9)}
    await store.remove_executions(ExecutionSelection(WIDGETS, test_name="test 4"), NOON)
    assert await read_sums(store, days(0)) == {0: DaySums(4, 0, 0, 4, 0 + 2 + 2 + 4)}


async def test_another_default_branch_has_days_of_its_own(store: Store) -> None:
    await load_history(store, "hinge", "unit", [P, P])
    run = make_run("next", branch="next")
    await store.write_results(WIDGETS, {run: make_executions(run, [("hinge", F)], NOON)})
    await store.refresh_tests(NOON)
    for branch, sums, health in (
        ("next", {0: DaySums(0, 1)}, {"broken": 1}),
        ("none", {}, {}),
        ("main", {-1: DaySums(1), 0: DaySums(1)}, {"healthy": 1}),
    ):
        await store.set_repository(WIDGETS, RepositoryChange(default_branch=branch), NOON)
        await store.refresh_tests(NOON)
        assert await read_sums(store, days(-3)) == sums
        assert (await read_health(store, days(-3)))[0] == health


async def test_another_default_branch_has_days_of_its_own_after_a_prune(store: Store) -> None:
    await load_history(store, "hinge", "unit", [F, F, F], end=-40)
    await store.refresh_tests(NOON)
    await store.prune(after(days=-30), NOON)
    assert (await read_health(store, days(-1)))[0] == {"broken": 1}
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="next"), NOON)
    await store.refresh_tests(NOON)
    assert (await read_health(store, days(-1)))[0] == {}
