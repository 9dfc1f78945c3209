"""The metrics of rows of the search on any store, and the filters and orders by them."""

from __future__ import annotations

from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import (
    HEALTH_NUMBERS,
    HealthStatus,
    IdentityKey,
    TestQuery,
    TestSort,
)
from indexing.models.tests import TestIdentity as Row
from indexing.models.tests import TestMetrics as Metrics
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, load_history, load_names, make_executions, make_run
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.walking import walk_both_ways

P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
BROKEN, FLAKY, UNKNOWN, HEALTHY = (
    HealthStatus.BROKEN,
    HealthStatus.FLAKY,
    HealthStatus.UNKNOWN,
    HealthStatus.HEALTHY,
)


async def read_all(store: Store, query: TestQuery) -> list[Row]:
    """Return all rows, after walking them both ways and comparing their total."""

    async def read(anchor: Anchor[IdentityKey]) -> Page[Row]:
        return await store.search_tests(query, anchor, 3)

    found = await walk_both_ways(read)
    assert await store.count_matches(query, 1_000) == len(found)
    assert await store.count_matches(query, 2) == min(len(found), 2)
    return found


def metrics(row: Row) -> Metrics:
    assert row.metrics is not None
    return row.metrics


async def load(store: Store) -> None:
    await load_history(store, "hinge", "linux", [P, P, F, P], duration=0.5)
    await load_history(store, "hinge", "windows", [P, F, F, F], duration=1.25)
    await load_history(store, "hinge", "mac", [P, F, P, F, P])
    await load_history(store, "hinge", "silent", [F, F], end=-20)
    await load_history(store, "hinge", "gone", [P, F], end=-40)
    await load_history(store, "hinge", "never", [S])
    await load_history(store, "knob", "linux", [P, P], duration=0.25)
    await store.refresh_tests(NOON)


async def test_each_row_has_the_metrics_of_its_own_sequence(store: Store) -> None:
    await load(store)
    rows = await read_all(store, TestQuery(WIDGETS, ("hinge",), with_metrics=True))
    found = {row.key.job_name: metrics(row) for row in rows}
    assert found == {
        "linux": Metrics(
            HEALTHY,
            4,
            1,
            failure_ratio=0.25,
            mean_duration=0.5,
            last_execution_at=NOON,
            last_failure_at=after(days=-1),
            latest_verdicts=("passed", "passed", "failed", "passed"),
        ),
        "windows": Metrics(
            BROKEN,
            4,
            3,
            failure_ratio=0.75,
            mean_duration=1.25,
            last_execution_at=NOON,
            last_failure_at=NOON,
            latest_verdicts=("passed", "failed", "failed", "failed"),
        ),
        "mac": Metrics(
            FLAKY,
            5,
            2,
            failure_ratio=0.4,
            last_execution_at=NOON,
            last_failure_at=after(days=-1),
            latest_verdicts=("passed", "failed", "passed", "failed", "passed"),
        ),
        "silent": Metrics(
            UNKNOWN,
            2,
            2,
            failure_ratio=1.0,
            last_execution_at=after(days=-20),
            last_failure_at=after(days=-20),
            latest_verdicts=("failed", "failed"),
        ),
        "gone": Metrics(UNKNOWN, 0),
        "never": Metrics(UNKNOWN, 1, last_execution_at=NOON),
    }
    assert all(row.metrics is None for row in await read_all(store, TestQuery(WIDGETS, ("*",))))


async def test_rows_are_found_and_sorted_by_their_own_health(store: Store) -> None:
    await load(store)

    async def jobs(**filters: tuple[HealthStatus, ...]) -> list[str]:
        query = TestQuery(WIDGETS, ("*",), TestSort.HEALTH_STATUS, **filters)  # type: ignore[arg-type]
        return [f"{row.key.test_name} {row.key.job_name}" for row in await read_all(store, query)]

    broken, flaky = ["hinge windows"], ["hinge mac"]
    unknown, healthy = ["hinge silent", "hinge never", "hinge gone"], ["knob linux", "hinge linux"]
    assert await jobs() == broken + flaky + unknown + healthy
    assert await jobs(health=(BROKEN, HEALTHY)) == broken + healthy
    assert await jobs(health=(FLAKY, UNKNOWN, BROKEN)) == broken + flaky + unknown
    assert await jobs(health=(HEALTHY,)) == healthy
    assert await jobs(health=()) == []


async def test_a_row_changes_with_the_other_jobs_of_its_test(store: Store) -> None:
    await load_history(store, "t", "old", [P, F], duration=1)
    await store.refresh_tests(NOON)
    query = TestQuery(WIDGETS, ("t",), TestSort.JOB_NAME, descending=False, with_metrics=True)
    (row,) = await read_all(store, query)
    assert (metrics(row).health_status, metrics(row).last_failure_at) == (HEALTHY, NOON)
    # A job that is not live but within the window; then one outside of it.
    await load_history(store, "t", "new", [P], end=9)
    await store.refresh_tests(NOON)
    rows = await read_all(store, query)
    assert [metrics(row).health_status for row in rows] == [HEALTHY, UNKNOWN]
    assert metrics(rows[1]).failed_executions_count == 1
    await load_history(store, "t", "newer", [P], end=60)
    await store.refresh_tests(NOON)
    rows = await read_all(store, query)
    assert [metrics(row).health_status for row in rows] == [UNKNOWN, HEALTHY, UNKNOWN]
    assert metrics(rows[2]) == Metrics(UNKNOWN, 0)


async def test_flaky_detection_decides_about_rows_too(store: Store) -> None:
    await load(store)
    await store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    await store.refresh_tests(NOON)
    flaky = TestQuery(WIDGETS, ("*",), health=(FLAKY,))
    assert await read_all(store, flaky) == []
    rows = await read_all(store, TestQuery(WIDGETS, ("*",), with_metrics=True))
    assert {m.health_status for m in map(metrics, rows)} == {HEALTHY, BROKEN, UNKNOWN}


async def test_an_infrastructure_failure_counts_as_executions_but_not_in_ratios(
    store: Store,
) -> None:
    await load_history(store, "t", "unit", [P], end=-1)
    run = make_run("down", commit="down")
    names = [(f"other {number}", F) for number in range(20)] + [("t", F)]
    await store.write_results(WIDGETS, {run: make_executions(run, names)})
    await store.refresh_tests(NOON)
    (row,) = await read_all(store, TestQuery(WIDGETS, ("t",), with_metrics=True))
    assert metrics(row) == Metrics(
        HEALTHY,
        2,
        1,
        last_execution_at=NOON,
        last_failure_at=NOON,
        latest_verdicts=("passed",),
    )


async def test_a_quarantine_shows_while_it_covers_the_default_branch(store: Store) -> None:
    await load(store)

    async def shown(days: float = 0) -> set[str]:
        query = TestQuery(WIDGETS, ("*",), with_metrics=True, now=after(days=days))
        rows = await read_all(store, query)
        return {row.key.test_name for row in rows if metrics(row).is_quarantined}

    assert await shown() == set()
    elsewhere = QuarantineRequest("hinge", "by hand", branch="release/*")
    await store.add_quarantine(WIDGETS, elsewhere, NOON)
    assert await shown() == set()
    request = QuarantineRequest("hinge", "by hand", branch="ma*", expires_at=after(days=1))
    added = await store.add_quarantine(WIDGETS, request, NOON)
    assert await shown() == {"hinge"}
    assert await shown(days=1) == set()
    await store.remove_quarantine(WIDGETS, added.quarantine.key.id, NOON)
    assert await shown() == set()


async def test_rows_are_found_by_their_quarantine_as_they_show_it(store: Store) -> None:
    await load(store)
    for name, ends in (("hinge", after(days=1)), ("gone since", None)):
        request = QuarantineRequest(name, "by hand", expires_at=ends)
        await store.add_quarantine(WIDGETS, request, NOON)

    async def found(quarantined: bool, days: float) -> set[str]:
        query = TestQuery(WIDGETS, ("*",), quarantined=quarantined, now=after(days=days))
        return {row.key.test_name for row in await read_all(store, query)}

    assert (await found(True, 0), await found(False, 0)) == ({"hinge"}, {"knob"})
    assert (await found(True, 1), await found(False, 1)) == (set(), {"hinge", "knob"})


async def test_tests_are_found_by_their_file(store: Store) -> None:
    for number, path in enumerate(["a/b.py", "a/[c].py", None, "d\ufffd.py"]):
        run = make_run(str(number))
        executions = make_executions(run, [(f"t{number}", P)], filepath=path)
        await store.ensure_repository(WIDGETS)
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)

    async def found(*patterns: str) -> str:
        query = TestQuery(WIDGETS, ("t?",), TestSort.TEST_NAME, filepaths=patterns)
        return "".join(sorted(row.key.test_name[1:] for row in await read_all(store, query)))

    assert await found("*") == "013"
    assert await found("a/*") == "01"
    assert await found("a/[c].py", "*\ufffd*") == "13"
    assert await found("a/b") == ""
    # A test has the file of its newest result.
    run = make_run("moved")
    moved = make_executions(run, [("t0", P)], after(hours=1), filepath="moved.py")
    await store.write_results(WIDGETS, {run: moved})
    await store.refresh_tests(NOON)
    assert await found("a/*") == "1"
    assert await found("moved.py") == "0"


async def test_names_are_excluded_even_if_included(store: Store) -> None:
    await load_names(store, ["a", "ab", "abc", "b"])

    async def found(*excluded: str) -> list[str]:
        query = TestQuery(
            WIDGETS, ("a*",), TestSort.TEST_NAME, descending=False, patterns_excluded=excluded
        )
        return [row.key.test_name for row in await read_all(store, query)]

    assert await found("*c", "a") == ["ab"]
    assert await found("a?") == ["a", "abc"]
    assert await found("*") == []


@on_stores_and_one_cache
async def test_expensive_patterns_exclude_and_find_files_too(store: Store) -> None:
    long = "x" * 300
    await store.ensure_repository(WIDGETS)
    for name, path in ((f"{long}a{long}b", f"{long}c{long}d"), (f"{long}a", None), ("t", "p")):
        made = make_executions(make_run(name[-1]), [(name, P)], filepath=path)
        await store.write_results(WIDGETS, {make_run(name[-1]): made})
    await store.refresh_tests(NOON)
    costly = f"*{long}a{long}*"
    excluding = TestQuery(WIDGETS, ("*",), patterns_excluded=(costly,))
    assert len(await read_all(store, excluding)) == 2
    of_file = TestQuery(WIDGETS, ("*",), filepaths=(f"*{long}c{long}*",), with_metrics=True)
    (row,) = await read_all(store, of_file)
    assert row.key.test_name.endswith("b")


def test_every_health_status_has_a_place_in_the_order() -> None:
    assert set(HEALTH_NUMBERS) == set(HealthStatus)
