"""How a rebuild reads and computes tests: several steps overlap, each with a page of executions."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import pytest

from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.derived import observations, refresh
from indexing.store.elasticsearch.derived.steps import Step
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
RUNS = 5


async def fill(store: ElasticsearchStore, tests: int) -> None:
    """Load five runs of these tests; the second one fails."""
    await store.ensure_repository(WIDGETS)
    for number in range(RUNS):
        run = make_run(str(number), commit=f"c{number}")
        conclusion = FAILED if number == 1 else PASSED
        results = [(f"t{n}", conclusion) for n in range(tests)]
        executions = make_executions(run, results, after(hours=number))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)


async def stored_tests(store: ElasticsearchStore) -> dict[str, Any]:
    index = cluster_of(store).layout.tests
    await ask(store, "POST", f"/{index}/_refresh")
    found = await ask(store, "POST", f"/{index}/_search", {"size": 100})
    return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


async def test_one_step_is_computed_at_a_time_while_the_next_ones_are_read(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store, 6)
    before = await stored_tests(store)
    monkeypatch.setattr(refresh, "_COMPUTED_A_STEP", 1)
    read, build = observations.read_counted, Step._build_all
    reads = 0
    others_are_read = threading.Event()
    working = threading.Lock()

    async def reading(*args: Any) -> observations.ReadExecutions:
        nonlocal reads
        found = await read(*args)
        reads += 1
        if reads == refresh._STEPS_AT_ONCE:
            others_are_read.set()
        return found

    def building(step: Step, *args: Any) -> Any:
        assert working.acquire(blocking=False), "two steps are computed at once"
        try:
            assert others_are_read.wait(60), "the next steps are not read meanwhile"
            return build(step, *args)
        finally:
            working.release()

    monkeypatch.setattr(observations, "read_counted", reading)
    monkeypatch.setattr(Step, "_build_all", building)
    assert await store.rebuild(NOON) == 6
    assert await stored_tests(store) == before


async def test_executions_that_arrive_after_they_were_counted_are_read_too(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store, 2)
    before = await stored_tests(store)

    async def count_few(_: object, __: object, tests: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(tests, 1)

    monkeypatch.setattr(observations, "count_executions", count_few)
    # Less than there are, but more than were counted.
    monkeypatch.setattr(observations, "_ROWS_A_PAGE", 3)
    assert await store.rebuild(NOON) == 2
    assert await stored_tests(store) == before


async def test_a_page_is_read_unsorted_if_all_executions_fit_into_it(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store, 2)
    connection, executions = cluster_of(store).connection, cluster_of(store).layout.executions
    search, orders = connection.search, list[Any]()

    async def searching(index: str, body: Any, **options: Any) -> Any:
        if index == executions and body["size"]:
            orders.append(body["sort"])
        return await search(index, body, **options)

    monkeypatch.setattr(connection, "search", searching)
    await store.rebuild(NOON)
    assert orders == [["_doc"]]


async def test_a_rebuild_does_not_displace_the_tests_that_loads_remember(
    store: ElasticsearchStore,
) -> None:
    await fill(store, 2)
    tests = await stored_tests(store)
    known, routing = cluster_of(store).written_tests, routing_of(WIDGETS)
    await store.rebuild(NOON)
    # They were written again, so what was remembered of them is outdated.
    assert await known.find(routing, list(tests)) == {}
    await store.write_results(
        WIDGETS, {(run := make_run("new")): make_executions(run, [("t0", PASSED)], after(hours=9))}
    )
    await store.refresh_tests(NOON)
    assert len(await known.find(routing, list(tests))) == 1
