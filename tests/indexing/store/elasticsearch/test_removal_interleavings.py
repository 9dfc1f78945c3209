"""Results that are removed while a load of them is in progress, or before its refresh.

Whatever the order, the store ends as if the removed results had never come.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from indexing.models.executions import Conclusion
from indexing.models.selections import ExecutionSelection
from indexing.store.elasticsearch import executions
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.derived import (
    dirty_markers,
    removed_results,
    run_counts,
    stored_markers,
)
from indexing.store.elasticsearch.derived.dirty_markers import DirtyMarker
from indexing.store.elasticsearch.indices.lease import LeaseDocument
from indexing.store.elasticsearch.repositories import note_removal
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.contracts.loading import load, of_run, state, write_result
from tests.indexing.store.elasticsearch.inspection import (
    ask,
    cluster_of,
    names,
    run_before,
    writes_executions,
)

pytestmark = pytest.mark.fresh_indices

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
WHOLE_TEST = ExecutionSelection(WIDGETS, test_name="t")


def undoing(store: ElasticsearchStore) -> Callable[[], Awaitable[None]]:
    """Return a function that removes the only result of run 9."""

    async def undo() -> None:
        assert await store.remove_executions(of_run("9"), NOON) == 1

    return undo


async def counts_of(store: ElasticsearchStore, run_id: str) -> list[dict[str, Any]]:
    """Return the stored documents with counts of a run."""
    cluster = cluster_of(store)
    await cluster.connection.refresh(cluster.layout.arrivals)
    found = await cluster.connection.search(cluster.layout.arrivals, {"size": 100})
    sources = [hit["_source"] for hit in found["hits"]["hits"]]
    return [source for source in sources if source["run_id"] == run_id]


async def leave_killed_refresh(store: ElasticsearchStore) -> None:
    """Leave the lease that a refresh of the repository leaves if it fails."""
    cluster, document = cluster_of(store), f"turn-{routing_of(WIDGETS)}"
    lease = LeaseDocument(cluster.connection, cluster.layout.control, document)
    await lease.put({"kind": "turn", "owner": None}, None)


async def _count_markers(store: ElasticsearchStore) -> int:
    cluster = cluster_of(store)
    await cluster.connection.refresh(cluster.layout.stale)
    return await cluster.connection.count(cluster.layout.stale)


def writes_arrivals_of_tests(target: str, body: Any) -> bool:
    return target.startswith("/_bulk") and b"-stale" in body and b'"arrivals_size"' in body


def writes_counts(target: str, body: Any) -> bool:
    return target.startswith("/_bulk") and b"-arrivals" in body


@pytest.mark.usefixtures("one_marker_a_read")
async def test_a_removal_whose_marker_is_handled_first(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(store, make_run("1"), ("t", PASSED))
    before = await state(store, ["t"])
    numbers = itertools.count()

    def name_in(place: str) -> Callable[..., str]:
        return lambda **_: f"{place}-{next(numbers)}"

    monkeypatch.setattr(executions, "new_marker_id", name_in("later in the order"))
    monkeypatch.setattr(dirty_markers, "new_marker_id", name_in("earlier"))
    await write_result(store, "9", FAILED)
    await other.remove_executions(of_run("9"), NOON)
    assert await state(store, ["t"]) == before


async def test_a_removal_before_the_load_has_marked_its_results(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(store, make_run("1"), ("t", PASSED))
    before = await state(store, ["t"])

    run_before(store, monkeypatch, writes_arrivals_of_tests, undoing(other))
    await write_result(store, "9", FAILED)
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await state(store, ["t"]) == before
    # Later loads are merged again.
    await write_result(store, "10", FAILED)
    await store.refresh_tests(NOON, repository=WIDGETS)
    with_it = await state(store, ["t"])
    await store.rebuild(NOON)
    assert await state(store, ["t"]) == with_it


@pytest.mark.parametrize("is_remembered", [False, True])
async def test_a_test_that_is_forgotten_before_its_results_are_stored(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    is_remembered: bool,
) -> None:
    await load(store if is_remembered else other, make_run("1"), ("t", PASSED), ("u", PASSED))
    run_before(store, monkeypatch, writes_executions, lambda: other.forget_test(WIDGETS, "t", NOON))
    await write_result(store, "9", FAILED)
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await names(store) == ["u"]
    assert (await store.measure_executions(WHOLE_TEST)).executions == 0
    assert await counts_of(store, "9") == []
    assert (await store.get_status(NOON)).stale_tests == 0
    # The next test of that name begins without them.
    await write_result(store, "10", PASSED)
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert (await store.measure_executions(WHOLE_TEST)).executions == 1


async def test_a_test_that_is_registered_again_keeps_its_results(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(other, make_run("1"), ("t", PASSED), ("u", PASSED))

    async def forget_and_load() -> None:
        await other.forget_test(WIDGETS, "t", NOON)
        await write_result(other, "10", PASSED)

    run_before(store, monkeypatch, writes_executions, forget_and_load)
    await write_result(store, "9", FAILED)
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await names(store) == ["t", "u"]
    assert (await store.measure_executions(WHOLE_TEST)).executions == 2


@pytest.mark.usefixtures("nobody_waits_for_a_lease")
@pytest.mark.parametrize("has_lease", [True, False])
async def test_a_removal_before_the_counts_of_the_run_are_written(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    has_lease: bool,
) -> None:
    await load(other, make_run("1"), ("t", PASSED))
    leases = cluster_of(other).refresh_leases

    async with AsyncExitStack() as taken:

        async def undo() -> None:
            await taken.aclose()
            assert await other.remove_executions(of_run("9"), NOON) == 1

        if not has_lease:
            await taken.enter_async_context(leases.hold(routing_of(WIDGETS)))
        await write_result(store, "9", FAILED)
        run_before(store, monkeypatch, writes_counts, undo)
        await store.refresh_tests(NOON, repository=WIDGETS)
    if has_lease:
        assert await counts_of(store, "9") != []
        await other.refresh_tests(NOON, repository=WIDGETS)
    assert await counts_of(store, "9") == []
    assert (await store.get_status(NOON)).stale_tests == 0


async def test_a_rebuild_deletes_counts_of_runs_without_results(store: ElasticsearchStore) -> None:
    await load(store, make_run("1"), ("t", PASSED))
    await load(store, make_run("9"), ("t", PASSED))
    (counts,) = await counts_of(store, "9")
    await store.remove_executions(of_run("9"), NOON)
    cluster = cluster_of(store)
    place = f"/{cluster.layout.arrivals}/_doc/{counts['arrival']}?routing={routing_of(WIDGETS)}"
    await ask(store, "PUT", place, counts)
    await store.rebuild(NOON)
    assert await counts_of(store, "9") == []
    assert len(await counts_of(store, "1")) == 1


async def test_a_removal_while_a_rebuild_counts_the_run(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(other, make_run("1"), ("t", PASSED))
    await write_result(other, "9", FAILED)
    cluster = cluster_of(other)
    await cluster.connection.refresh(cluster.layout.executions)

    run_before(store, monkeypatch, writes_counts, undoing(other))
    await store.rebuild(NOON)
    assert await counts_of(store, "9") == []


async def test_results_that_an_earlier_release_wrote_before_the_removal(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(store, make_run("1"), ("t", PASSED))
    before = await state(store, ["t"])

    run_before(store, monkeypatch, writes_arrivals_of_tests, undoing(other))
    mark = dirty_markers.marker_operation

    def mark_as_before(*arguments: Any, **options: Any) -> Operation:
        options.pop("removal")
        return mark(*arguments, **options)

    monkeypatch.setattr(executions, "marker_operation", mark_as_before)
    await write_result(store, "9", FAILED)
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await state(store, ["t"]) == before


@pytest.mark.usefixtures("nobody_waits_for_a_lease")
async def test_runs_to_count_again_are_counted_though_another_run_turns_out_to_have_failed(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(other, make_run("1"), ("t", PASSED))
    await write_result(store, "9", FAILED)

    run_before(store, monkeypatch, writes_counts, undoing(other))
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await counts_of(store, "9") != []
    run = make_run("10")
    failed = [(f"t{number}", FAILED) for number in range(60)]
    await store.write_results(WIDGETS, {run: make_executions(run, failed)})
    await other.refresh_tests(NOON, repository=WIDGETS)
    assert await counts_of(store, "9") == []
    assert await _count_markers(store) == 0


async def test_removals_that_go_on_do_not_hold_up_a_refresh(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(other, make_run("1"), ("t", PASSED))
    await load(other, make_run("9"), ("t", PASSED))
    count_all, counted = run_counts._count_all, 0

    async def count(*arguments: Any, **options: Any) -> None:
        nonlocal counted
        counted += 1
        await note_removal(cluster_of(other), routing_of(WIDGETS))
        await count_all(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(run_counts, "_count_all", count)
        await store.remove_executions(of_run("9"), NOON)
    assert counted == 2
    assert await _count_markers(store) == 1
    await other.refresh_tests(NOON, repository=WIDGETS)
    assert await _count_markers(store) == 0


@pytest.mark.usefixtures("one_marker_a_read")
@pytest.mark.parametrize("tests", [5, 20])
async def test_a_removal_after_a_killed_refresh_reads_each_marker_a_few_times(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch, tests: int
) -> None:
    run = make_run("9")
    await load(store, run, *((f"t{number}", PASSED) for number in range(tests)))
    monkeypatch.setattr(removed_results, "_ROWS_A_PAGE", 1)
    await leave_killed_refresh(store)
    parse, bounds = stored_markers._parse_marker, 0

    def count(document: Document) -> DirtyMarker:
        nonlocal bounds
        marker = parse(document)
        bounds += len(marker.follow_up.bounds)
        return marker

    monkeypatch.setattr(stored_markers, "_parse_marker", count)
    assert await store.remove_executions(of_run("9"), NOON) == tests
    assert bounds == tests
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await counts_of(store, "9") == []
    assert await _count_markers(store) == 0


@pytest.mark.usefixtures("one_marker_a_read")
async def test_a_refresh_of_all_writes_all_rows_that_a_killed_one_may_lack(
    store: ElasticsearchStore,
) -> None:
    await load(store, make_run("1"), ("t", PASSED), ("u", PASSED))
    cluster, routing = cluster_of(store), routing_of(WIDGETS)
    found = await cluster.connection.search(cluster.layout.identities, {"version": True})
    for hit in found["hits"]["hits"]:
        guard = f"version={hit['_version']}&version_type=external_gte&refresh=true"
        place = f"/{hit['_index']}/_doc/{hit['_id']}?routing={routing}&{guard}"
        await ask(store, "DELETE", place)
    assert await names(store) == []
    await leave_killed_refresh(store)
    for test in await _test_ids(store):
        marked = await dirty_markers.mark_before(cluster, routing, [test])
        await dirty_markers.mark_after(cluster, marked)
    assert await store.refresh_tests(NOON) == 2
    assert await names(store) == ["t", "u"]


async def _test_ids(store: ElasticsearchStore) -> list[str]:
    cluster = cluster_of(store)
    await cluster.connection.refresh(cluster.layout.tests)
    found = await cluster.connection.search(cluster.layout.tests, {"size": 10})
    return [hit["_id"] for hit in found["hits"]["hits"]]
