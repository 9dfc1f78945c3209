"""Figures of one test by day, on any store, compared with a slow computation of all results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

import pytest

from indexing.health.history import KEPT_DAYS
from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.executions import MAX_DURATION, Conclusion, Execution, Run
from indexing.models.trends import DayQuery, DaySumsOfTest, TestStat
from indexing.names import RepositoryName
from indexing.store.interface import Store
from indexing.store.series import Figure, read_test_series
from tests.builders import FOREIGN, NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.contracts.conftest import on_stores_and_one_cache

P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
HINGE = derive_test_id(WIDGETS, "hinge")
TODAY = day_of(NOON)
pytestmark = on_stores_and_one_cache


class Result(NamedTuple):
    run: Run
    execution: Execution
    down: bool = False


async def load(store: Store) -> list[Result]:
    """Load results of 40 days in two pipelines and jobs, some on another branch, some retried."""
    random = Random(11)
    await store.ensure_repository(WIDGETS)
    found: list[Result] = []
    written: dict[Run, list[Execution]] = defaultdict(list)
    for number in range(150):
        run = make_run(
            str(number),
            pipeline=random.choice(["ci", "nightly"]),
            job=random.choice(["linux", "mac"]),
            branch=random.choice(["main", "main", "main", "topic"]),
            commit=f"c{random.randrange(40)}",
        )
        at = NOON - timedelta(seconds=random.randrange(40 * 86_400))
        duration = random.choice([None, 0.0, 0.1, 0.7, 1e-6, 12.5])
        conclusion = random.choice([P, P, P, F, S])
        retries = random.random() < 0.1 and conclusion is P
        (execution,) = make_executions(
            run, [("hinge", conclusion)], at, duration=duration, needed_retries=retries
        )
        written[run].append(execution)
        found.append(Result(run, execution))
    down = make_run("down", job="linux")
    everything = [(f"t{number}", F) for number in range(30)] + [("hinge", F)]
    executions = make_executions(down, everything, after(days=-3), duration=2.0)
    written[down] += executions
    found.append(Result(down, executions[-1], down=True))
    await store.write_results(WIDGETS, written)
    await load_names(store, ["hinge"], repository=FOREIGN)
    await store.refresh_tests(NOON)
    return found


def sum_slowly(results: Sequence[Result], query: DayQuery) -> dict[int, DaySumsOfTest]:
    """Compute the expected value of each day of the query."""
    days: dict[int, DaySumsOfTest] = {}
    verdicts: dict[tuple[str, str, str], list[Execution]] = defaultdict(list)

    def add(at: datetime, more: DaySumsOfTest) -> None:
        day = day_of(at)
        if query.first_day <= day <= query.last_day:
            days[day] = days.get(day, DaySumsOfTest()).plus(more)

    for run, execution, down in results:
        if (
            run.branch != "main"
            or (query.pipelines and run.pipeline_name not in query.pipelines)
            or (query.jobs and run.job_name not in query.jobs)
        ):
            continue
        conclusion, duration = execution.conclusion, execution.duration
        counted = DaySumsOfTest(conclusion is P, conclusion is F, conclusion is S)
        if duration is not None:
            micro = round(duration * 1_000_000)
            counted = counted._replace(durations=1, total_duration=micro, longest_duration=micro)
        add(execution.finished_at, counted)
        if conclusion is not S and not down:
            verdicts[run.pipeline_name, run.job_name, run.commit].append(execution)
    for executions in verdicts.values():
        kinds = {execution.conclusion for execution in executions}
        if len(kinds) > 1 or any(execution.needed_retries for execution in executions):
            first = min(execution.finished_at for execution in executions)
            add(first, DaySumsOfTest(flaky_verdicts=1))
    return days


def query(first: int = -60, last: int = 0, **filters: tuple[str, ...]) -> DayQuery:
    return DayQuery(WIDGETS, TODAY + first, TODAY + last, **filters)


async def read(store: Store, of_days: DayQuery) -> dict[int, DaySumsOfTest]:
    found = await store.sum_days_of_test(of_days, HINGE)
    assert found is not None
    return dict(found)


async def test_days_equal_what_is_counted_from_all_results(store: Store) -> None:
    results = await load(store)
    for asked in (
        query(),
        query(-20, -3),
        query(pipelines=("ci",)),
        query(jobs=("mac", "none")),
        query(-30, pipelines=("ci", "nightly"), jobs=("linux",)),
        query(jobs=("none",)),
        query(5, 9),
    ):
        assert await read(store, asked) == sum_slowly(results, asked)
    assert sum_slowly(results, query())[TODAY - 3].failed > 0
    assert await store.sum_days_of_test(query(), derive_test_id(FOREIGN, "hinge")) is None
    assert await store.sum_days_of_test(query(), derive_test_id(WIDGETS, "absent")) is None
    elsewhere = DayQuery(RepositoryName("no", "such"), 0, TODAY)
    assert await store.sum_days_of_test(elsewhere, HINGE) is None


async def test_flaky_verdicts_are_counted_as_those_of_the_repository_are(store: Store) -> None:
    """History is kept for 800 days before the newest execution, however old the results are."""
    await store.ensure_repository(WIDGETS)
    for number, days in enumerate((-KEPT_DAYS - 1, -KEPT_DAYS, 0)):
        run = make_run(str(number), commit=f"c{number}")
        flaky = make_executions(run, [("hinge", P), ("hinge", F)], after(days=days))
        await store.write_results(WIDGETS, {run: flaky})
        await store.refresh_tests(NOON)
    asked = query(-KEPT_DAYS - 5)
    days_of_test = await read(store, asked)
    assert [(day - TODAY, of.passed, of.failed) for day, of in sorted(days_of_test.items())] == [
        (-KEPT_DAYS - 1, 1, 1),
        (-KEPT_DAYS, 1, 1),
        (0, 1, 1),
    ]
    counted = {day: of.flaky_verdicts for day, of in days_of_test.items() if of.flaky_verdicts}
    assert counted == {TODAY - KEPT_DAYS: 1, TODAY: 1}
    assert counted == await store.count_flaky_verdicts(asked)


@pytest.mark.parametrize("stat", TestStat)
async def test_a_series_has_every_day_and_the_figure_of_all(store: Store, stat: TestStat) -> None:
    results = await load(store)
    asked = query(-9)
    sums = sum_slowly(results, asked)
    whole = DaySumsOfTest()
    for day in sums.values():
        whole = whole.plus(day)

    def figure(of: DaySumsOfTest) -> Figure:
        mean = of.total_duration / of.durations / 1e6 if of.durations else None
        longest = of.longest_duration / 1e6 if of.durations else None
        counts = dict(zip(TestStat, of, strict=False))
        return {**counts, TestStat.MEAN_DURATION: mean, TestStat.MAX_DURATION: longest}[stat]

    series = await read_test_series(store, stat, asked, HINGE)
    assert series is not None
    assert series.value == figure(whole)
    empty = DaySumsOfTest()
    expected = [figure(sums.get(TODAY + day, empty)) for day in range(-9, 1)]
    assert [bar.value for bar in series.value_over_time] == expected
    assert series.value_over_time[-1].end == after(hours=12)


async def test_days_whose_results_are_stored_keep_their_figures(store: Store) -> None:
    results = await load(store)
    # Roll-ups are to be kept for a shorter time than executions, of which none is old enough.
    await store.prune(after(days=-50), NOON, rollups_before=after(days=-7))
    assert await read(store, query()) == sum_slowly(results, query())


async def test_days_that_retention_has_reached_have_no_figure(store: Store) -> None:
    results = await load(store)
    asked = query(-6)
    await store.prune(after(days=-3), NOON)
    left = {day: sums for day, sums in sum_slowly(results, asked).items() if day > TODAY - 3}
    assert await read(store, asked) == left
    series = await read_test_series(store, TestStat.SUCCESS_COUNT, asked, HINGE)
    assert series is not None
    assert [bar.value for bar in series.value_over_time][:4] == [None] * 4
    assert series.value == sum(sums.passed for sums in left.values())
    gone = await read_test_series(store, TestStat.SUCCESS_COUNT, query(-6, -4), HINGE)
    assert gone is not None
    assert (gone.value, {bar.value for bar in gone.value_over_time}) == (None, {None})


async def test_absurd_durations_of_one_test_leave_the_others_alone(store: Store) -> None:
    """The sum of 3,000 centuries in microseconds does not fit into 64 bits."""
    await load_names(store, ["t"])
    await load_names(store, ["t"], repository=FOREIGN)
    for job in ("linux", "mac"):
        run = make_run(job, job=job)
        results = [("hinge", P)] * 1_500
        for at in (NOON, after(minutes=1)):
            given = make_executions(run, results, at, duration=float(MAX_DURATION))
            await store.write_results(WIDGETS, {run: given})
            await store.refresh_tests(NOON, repository=WIDGETS)
    other = make_run("other")
    given = make_executions(other, [("t", P)], repository=FOREIGN)
    await store.write_results(FOREIGN, {other: given})
    assert await store.refresh_tests(NOON) == 1
    assert (await store.get_status(NOON)).stale_tests == 0
    query = DayQuery(WIDGETS, TODAY, TODAY)
    sums = await store.sum_days_of_test(query, HINGE)
    assert sums is not None
    assert (sums[TODAY].passed, sums[TODAY].durations) == (6_000, 6_000)
    await store.rebuild(NOON)
    assert (await store.get_status(NOON)).stale_tests == 0
