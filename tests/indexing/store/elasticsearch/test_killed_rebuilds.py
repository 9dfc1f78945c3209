"""Rebuilds after one that was killed: what it left is not done twice, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indexing.identifiers import derive_test_id
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.derived import (
    dirty_markers,
    refresh,
    spelled_markers,
    stored_markers,
)
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, load_names
from tests.indexing.store.elasticsearch.inspection import (
    KilledError,
    ask,
    cluster_of,
    limit_requests,
    run_before,
)
from tests.whole_state import read_all

pytestmark = pytest.mark.fresh_indices

STORED = [f"t{number:02}" for number in range(20)]


@pytest.fixture(autouse=True)
def small_pages(leases_expire_soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let five markers name the tests, and a refresh handle two of them at a time."""
    monkeypatch.setattr(spelled_markers, "TESTS_A_MARKER", 4)
    monkeypatch.setattr(stored_markers, "_MARKERS_A_PAGE", 2)
    monkeypatch.setattr(stored_markers, "_TESTS_AT_ONCE", 8)
    monkeypatch.setattr(refresh, "_COMPUTED_A_STEP", 4)


async def kill_a_rebuild(store: ElasticsearchStore, after_tests: int = 8) -> None:
    """Let a rebuild of that store die once it has computed so many tests."""

    def stop(tests: int) -> None:
        if tests >= after_tests:
            raise KilledError

    with pytest.raises(KilledError):
        await store.rebuild(NOON, stop)


async def read_markers(store: ElasticsearchStore) -> list[dict[str, Any]]:
    index = cluster_of(store).layout.stale
    await ask(store, "POST", f"/{index}/_refresh")
    found = await ask(store, "POST", f"/{index}/_search", {"size": 100})
    return [hit["_source"] for hit in found["hits"]["hits"]]


async def read_clean(place: Path) -> list[str]:
    """Everything in a store that had the same load, and no rebuild."""
    store = await open_store(place)
    await load_names(store, STORED)
    await store.close()
    return await read_all(place, [WIDGETS])


async def test_each_test_is_computed_once_after_a_kill(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    tmp_path: Path,
) -> None:
    await load_names(store, STORED)
    await kill_a_rebuild(store)
    await kill_a_rebuild(other)
    assert await read_markers(other)
    assert await other.rebuild(NOON) == len(STORED)
    assert await read_markers(other) == []
    assert await read_all(elasticsearch_place, [WIDGETS]) == await read_clean(tmp_path)


@pytest.mark.slow
async def test_wherever_the_kill_was_each_test_is_computed_once(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await load_names(store, STORED)
    allowed = limit_requests(store, monkeypatch)
    requests, is_done = 1, False
    while not is_done:
        allowed.left = requests
        try:
            assert await store.rebuild(NOON) == len(STORED)
            is_done = True
        except KilledError:
            assert await other.rebuild(NOON) == len(STORED), requests
            assert await read_markers(other) == [], requests
        requests += 7
    assert requests > 30
    assert await read_all(elasticsearch_place, [WIDGETS]) == await read_clean(tmp_path)


async def test_pages_are_replaced_although_one_of_their_tests_was_forgotten(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await load_names(store, STORED)
    await kill_a_rebuild(store, 0)
    await other.forget_test(WIDGETS, "t07", NOON)
    cluster, routing = cluster_of(other), routing_of(WIDGETS)
    await dirty_markers.mark_repository(cluster, routing, later=True)
    markers, _ = await stored_markers.read_markers(cluster, routing)
    (whole,) = [marker for marker in markers if marker.tests is None]
    await spelled_markers.spell_out(cluster, whole)
    left = [marker["tests"] for marker in await read_markers(other)]
    kept = sorted(str(derive_test_id(WIDGETS, name)) for name in STORED if name != "t07")
    assert sorted(test for tests in left for test in tests) == kept
    assert await other.rebuild(NOON) == len(kept)


async def test_markers_of_a_prune_and_of_loads_are_not_replaced(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await load_names(store, STORED)
    await kill_a_rebuild(store)
    cluster, routing = cluster_of(other), routing_of(WIDGETS)
    tests = [str(derive_test_id(WIDGETS, name)) for name in STORED[:3]]
    marked = await dirty_markers.mark_before(cluster, routing, tests, later=True)
    await dirty_markers.mark_after(cluster, marked)
    await dirty_markers.mark_before(cluster, routing, tests, later=True)
    await dirty_markers.mark_changed(cluster, routing, tests)
    await dirty_markers.mark_repository(cluster, routing, later=True)
    markers, _ = await stored_markers.read_markers(cluster, routing)
    (whole,) = [marker for marker in markers if marker.tests is None]
    await spelled_markers.spell_out(cluster, whole)
    left = [marker["tests"] for marker in await read_markers(other)]
    assert left.count(sorted(tests)) == 3
    assert len(left) == 3 + 5


async def test_a_refresh_between_two_pages_of_markers_finds_what_replaced_them(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, STORED)
    await kill_a_rebuild(store, 0)
    cluster, routing = cluster_of(other), routing_of(WIDGETS)

    replaced = False

    async def replace_all() -> None:
        nonlocal replaced
        await dirty_markers.mark_repository(cluster, routing, later=True)
        await cluster.connection.refresh(cluster.layout.stale)
        markers, _ = await stored_markers.read_markers(cluster, routing)
        (whole,) = [marker for marker in markers if marker.tests is None]
        await spelled_markers.spell_out(cluster, whole)
        await cluster.connection.refresh(cluster.layout.stale)
        replaced = True

    def reads_second_page(target: str, body: Any) -> bool:
        return "-stale/_search" in target and "search_after" in body

    monkeypatch.setattr(stored_markers, "_TESTS_AT_ONCE", 1_000)
    run_before(store, monkeypatch, reads_second_page, replace_all)
    await store.refresh_tests(NOON)
    assert replaced
    assert await read_markers(other) == []
