"""Pruning judges results before it drops them, also those that arrive while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus
from indexing.models.trends import DayQuery
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices import control
from indexing.store.elasticsearch.indices.control import State
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import (
    cluster_of,
    names,
    run_before,
    writes_executions,
)


async def test_an_old_failure_that_arrives_meanwhile_counts_before_it_is_dropped(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    for number, days in enumerate((-60, -1)):
        run = make_run(str(number), commit=f"c{number}")
        passed = make_executions(run, [("hinge", Conclusion.PASSED)], after(days=days))
        await store.write_results(WIDGETS, {run: passed})
    await store.refresh_tests(after())
    count = Connection.count

    async def write_meanwhile(connection: Connection, *about: Any) -> int:
        found = await count(connection, *about)
        run = make_run("late", commit="late")
        results = [("hinge", Conclusion.FAILED), ("latch", Conclusion.FAILED)]
        late = make_executions(run, results, after(days=-50))
        await store.write_results(WIDGETS, {run: late})
        return found

    monkeypatch.setattr(Connection, "count", write_meanwhile)
    await store.prune(after(days=-30), after())
    # Results of a test without older ones are dropped, too.
    for name in ("hinge", "latch"):
        found = await store.get_test(WIDGETS, derive_test_id(WIDGETS, name))
        assert found is not None
        assert found.health.first_failure_at == after(days=-50)
        assert found.health.failure_ratio == 0.0


QUERY = DayQuery(WIDGETS, day_of(after(days=-60)), day_of(NOON))
HINGE = derive_test_id(WIDGETS, "hinge")
OF_DAYS: Mapping[str, Callable[[ElasticsearchStore], Awaitable[object]]] = {
    "the sums": lambda store: store.sum_days(QUERY),
    "the sums of a test": lambda store: store.sum_days_of_test(QUERY, HINGE),
    "the final day": lambda store: store.find_final_day(),
}


@pytest.mark.parametrize("read", OF_DAYS.values(), ids=OF_DAYS)
async def test_days_lack_nothing_although_another_process_has_just_pruned(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[ElasticsearchStore], Awaitable[object]],
) -> None:
    monkeypatch.setattr(control, "_REMEMBERED_SECONDS", 3_600.0)
    await store.ensure_repository(WIDGETS)
    for days, conclusion in ((-40, Conclusion.FAILED), (-39, Conclusion.PASSED)):
        run = make_run(str(days), commit="same")
        executions = make_executions(run, [("hinge", conclusion)], after(days=days))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    # From now on, it remembers the retention marks.
    await read(other)
    await store.prune(after(days=-30), NOON)
    assert await read(other) == await read(store)
    assert len(await other.sum_days(QUERY)) == 2


async def load_old_failures(store: ElasticsearchStore) -> None:
    """Store three failures of the test `hinge`, older than the prune of the tests below keeps."""
    for number in range(3):
        run = make_run(f"old {number}", commit=f"old {number}")
        failed = make_executions(run, [("hinge", Conclusion.FAILED)], after(days=-40, hours=number))
        await store.write_results(WIDGETS, {run: failed})


async def assert_not_judged(store: ElasticsearchStore) -> None:
    """Check that `hinge` has no health, as after a rebuild."""
    assert await names(store) == []
    found = await store.get_test(WIDGETS, HINGE)
    assert found is not None
    assert found.health.health_status is HealthStatus.UNKNOWN
    assert (await store.get_status(NOON)).stale_tests == 0


async def test_results_that_are_judged_just_before_they_are_dropped_leave_no_health(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    own = cluster_of(other).control
    change = own.change

    async def load_before(changing: Callable[[State], State]) -> State:
        monkeypatch.setattr(own, "change", change)
        await load_old_failures(store)
        await store.refresh_tests(NOON, repository=WIDGETS)
        assert await names(store) == ["hinge"]
        return await change(changing)

    monkeypatch.setattr(own, "change", load_before)
    await other.prune(after(days=-30), NOON)
    await assert_not_judged(store)


async def test_results_that_are_dropped_before_they_are_judged_leave_no_health(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    run_before(store, monkeypatch, writes_executions, lambda: other.prune(after(days=-30), NOON))
    run = make_run("old", commit="old")
    failed = make_executions(run, [("hinge", Conclusion.FAILED)], after(days=-40))
    await store.write_results(WIDGETS, {run: failed})
    await store.refresh_tests(NOON, repository=WIDGETS)
    await assert_not_judged(store)
    # The same results count if they arrive again, as after any prune.
    await store.write_results(WIDGETS, {run: failed})
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await names(store) == ["hinge"]
