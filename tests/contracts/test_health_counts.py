"""Tests counted by health, and those that wait for a refresh."""

from __future__ import annotations

from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus
from indexing.store.interface import Store
from tests.builders import FOREIGN, GADGETS, WIDGETS, after, make_executions, make_run
from tests.contracts.conftest import on_stores_and_one_cache

P, F = Conclusion.PASSED, Conclusion.FAILED

NONE = dict.fromkeys(HealthStatus, 0)


@on_stores_and_one_cache
async def test_tests_are_counted_by_health_once_they_are_refreshed(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    await store.ensure_repository(GADGETS)
    for number in range(3):
        run, at = make_run(str(number), commit=f"c{number}"), after(hours=number)
        results = [("sound", P), ("sounder", P), ("bad", F)]
        await store.write_results(WIDGETS, {run: make_executions(run, results, at)})
    branch = make_run("9", branch="topic")
    await store.write_results(WIDGETS, {branch: make_executions(branch, [("new", P)])})
    assert await store.count_stale_tests() == 4
    assert await store.count_tests(WIDGETS) == NONE | {HealthStatus.UNKNOWN: 4}
    await store.refresh_tests(after(days=1))
    assert await store.count_stale_tests() == 0
    assert await store.count_tests(WIDGETS) == NONE | {
        HealthStatus.HEALTHY: 2,
        HealthStatus.BROKEN: 1,
        HealthStatus.UNKNOWN: 1,
    }
    for empty in (GADGETS, FOREIGN):
        assert await store.count_tests(empty) == NONE


async def test_a_test_counts_once_by_the_worst_of_its_jobs(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    for number in range(3):
        for job, mixed in (("linux", P), ("mac", F)):
            run = make_run(f"{job}{number}", job=job, commit=f"c{number}")
            results = [("sound", P), ("mixed", mixed), ("bad", F)]
            executions = make_executions(run, results, after(hours=number))
            await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(after(days=1))
    assert await store.count_tests(WIDGETS) == NONE | {
        HealthStatus.HEALTHY: 1,
        HealthStatus.BROKEN: 2,
    }
