"""Behaviour specific to the Elasticsearch backend, on a real node."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from indexing import globs
from indexing.errors import StoreError, StoreUnavailableError, StoreVersionError
from indexing.fairness import current_tenant
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch.client import search_queue
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.failures import TooComplexError
from indexing.store.elasticsearch.client.search_queue import SEARCHES_AT_ONCE
from indexing.store.elasticsearch.indices import setup
from indexing.store.elasticsearch.indices.control import Control
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, Layout
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import EventOutcome
from tests.builders import (
    NOON,
    WIDGETS,
    after,
    load_names,
    make_event,
    make_executions,
    make_run,
)
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of, event_ids, names, open_at

pytestmark = pytest.mark.fresh_indices


async def test_processes_that_start_together_agree(elasticsearch_place: ElasticsearchPlace) -> None:
    opened = await asyncio.gather(*(open_at(elasticsearch_place) for _ in range(5)))
    identities = {await store.get_identity() for store in opened}
    await asyncio.gather(*(store.close() for store in opened))
    assert len(identities) == 1


async def test_indices_of_another_version_are_refused(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace
) -> None:
    document = f"/{cluster_of(store).layout.control}/_doc/store"
    found = await ask(store, "GET", document)
    await ask(store, "PUT", document, found["_source"] | {"version": 99})
    works_on = f"of version 99; this release of mergewatch works on version {LAYOUT_VERSION}"
    with pytest.raises(StoreVersionError, match=works_on):
        await open_at(elasticsearch_place)


async def test_a_server_that_is_too_old_is_refused(
    elasticsearch_place: ElasticsearchPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "MIN_SERVER_MAJOR", 99)
    with pytest.raises(StoreVersionError, match=r"needs 99\.0 or later"):
        await open_at(elasticsearch_place)


async def test_a_cluster_that_is_not_there_is_unavailable_and_its_password_stays_secret() -> None:
    place = ElasticsearchPlace(("http://elastic:hunter2@127.0.0.1:9",), "nowhere")
    with pytest.raises(StoreUnavailableError) as raised:
        await open_at(place)
    assert "hunter2" not in f"{raised.value!r} {place!r}"


async def test_an_event_that_the_index_cannot_hold_is_refused_alone(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    # A user's own mapping conflicts.
    index = f"/{cluster_of(store).layout.events_of('2026-09')}"
    await ask(store, "PUT", index, {"mappings": {"properties": {"base_ref": {"type": "long"}}}})
    events = [make_event(1), make_event(2, base_ref="main"), make_event(3)]
    outcomes = await store.write_events(events)
    assert outcomes == [EventOutcome.WRITTEN, EventOutcome.REFUSED, EventOutcome.WRITTEN]
    assert await event_ids(store) == [3, 1]


async def test_an_index_whose_mapping_was_made_strict_refuses_no_event_for_good(
    store: ElasticsearchStore,
) -> None:
    """It takes none, so the sender must keep them."""
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1)])
    mapping = f"/{cluster_of(store).layout.events_of('2026-09')}/_mapping"
    await ask(store, "PUT", mapping, {"dynamic": "strict"})
    with pytest.raises(StoreUnavailableError, match="mapping set to strict"):
        await store.write_events([make_event(2)])
    await ask(store, "PUT", mapping, {"dynamic": False})
    assert await store.write_events([make_event(2)]) == [EventOutcome.WRITTEN]


@pytest.mark.parametrize(
    "pattern", ["*a" + "?" * 40, "*a" + "?" * 40 + "*b", "*?a" * 15 + "?" * 60]
)
async def test_a_pattern_too_complex_for_the_engine_is_answered_all_the_same(
    store: ElasticsearchStore, pattern: str
) -> None:
    stored = ["a" + "x" * 40, "aa" + "x" * 39 + "b", "a" * 120, "b" * 50, "a" * 45]
    await load_names(store, stored)
    expected = sorted(name for name in stored if globs.matches(pattern, name))
    assert await names(store, TestQuery(WIDGETS, (pattern,))) == expected


async def test_the_engine_does_refuse_such_a_pattern(store: ElasticsearchStore) -> None:
    await load_names(store, ["t"])
    query = {"wildcard": {"key": {"value": "*a" + "?" * 40}}}
    with pytest.raises(TooComplexError):
        await cluster_of(store).connection.search(
            cluster_of(store).layout.identities, {"query": query}
        )


EXPENSIVE = TestQuery(WIDGETS, tuple("?" * (2_048 - number) for number in range(3)))


async def take_slot(store: ElasticsearchStore, tenant: str, taken: asyncio.Semaphore) -> None:
    current_tenant.set(tenant)
    async with cluster_of(store).searches.slot():
        taken.release()
        await asyncio.Event().wait()


async def test_an_expensive_search_waits_for_its_turn_and_a_cheap_one_does_not(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, ["a"])
    taken = asyncio.Semaphore(0)
    holding = [
        asyncio.create_task(take_slot(store, f"tenant {number}", taken))
        for number in range(SEARCHES_AT_ONCE)
    ]
    for _ in holding:
        await taken.acquire()
    cheap = TestQuery(WIDGETS, ("*a*", "b?"))
    assert len((await store.search_tests(cheap, Anchor(), 1)).rows) == 1
    monkeypatch.setattr(search_queue, "WAIT_SECONDS", 0.01)
    with pytest.raises(StoreUnavailableError, match="expensive"):
        await store.search_tests(EXPENSIVE, Anchor(), 1)
    monkeypatch.undo()
    for task in holding:
        task.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert (await store.search_tests(EXPENSIVE, Anchor(), 1)).rows == ()


async def test_expensive_searches_trip_no_breaker(store: ElasticsearchStore) -> None:
    await load_names(store, ["a" * length for length in (1, 100, 2_000, 7_000)])

    async def count_tripped() -> int:
        told = await ask(store, "GET", "/_nodes/stats/breaker")
        (node,) = told["nodes"].values()
        return sum(breaker["tripped"] for breaker in node["breakers"].values())

    before = await count_tripped()
    for number in range(10):
        patterns = tuple(f"{pattern}{number}" for pattern in EXPENSIVE.patterns)
        await store.search_tests(TestQuery(WIDGETS, patterns), Anchor(), 1)
    assert await count_tripped() == before


async def test_part_of_an_answer_is_an_error(store: ElasticsearchStore) -> None:
    await load_names(store, ["t"])
    # A field that cannot be sorted by, in one slice only, makes that shard alone fail.
    broken = f"/{cluster_of(store).layout.events_of('2026-08')}"
    form = {
        "settings": {"index.sort.field": ["id"], "index.sort.order": ["desc"]},
        "mappings": {"properties": {"received_at": {"type": "text"}}},
    }
    await ask(store, "PUT", broken, form)
    await store.write_events([make_event(1, after(days=-10)), make_event(2)])
    with pytest.raises(StoreError):
        await event_ids(store)


async def test_a_closed_slice_is_an_error_and_not_a_short_page(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1, after(days=-10)), make_event(2)])
    await ask(store, "POST", f"/{cluster_of(store).layout.events_of('2026-08')}/_close")
    with pytest.raises(StoreError):
        await event_ids(store)


async def test_whoever_runs_the_cluster_has_the_last_word_on_shards(
    elasticsearch_place: ElasticsearchPlace,
) -> None:
    layout = Layout(elasticsearch_place.prefix)
    template = f"/_component_template/{layout.prefix}-events@custom"
    settings = {"template": {"settings": {"number_of_shards": 3}}}
    store = await open_at(elasticsearch_place)
    try:
        await ask(store, "PUT", template, settings)
        await store.ensure_repository(WIDGETS)
        await store.write_events([make_event(1)])
        found = await ask(store, "GET", f"/{layout.events_of('2026-09')}/_settings")
        (index,) = found.values()
        assert index["settings"]["index"]["number_of_shards"] == "3"
    finally:
        await ask(store, "PUT", template, {"template": {}})
        await store.close()


async def test_a_store_that_vanished_under_a_reader_is_an_error(store: ElasticsearchStore) -> None:
    await ask(store, "DELETE", f"/{cluster_of(store).layout.prefix}-*")
    with pytest.raises(StoreError):
        await Control(cluster_of(store).connection, cluster_of(store).layout).read()
    with pytest.raises(StoreError):
        await names(store)


async def test_the_detail_of_a_test_reads_nothing_of_each_job(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    # So many that their roll-ups are parsed in a thread.
    for number in range(60):
        run = make_run("1", job=f"matrix-{number}")
        executions = make_executions(run, [("t", Conclusion.PASSED)])
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    test_id = derive_test_id(WIDGETS, "t")
    get_each = Connection.get_each
    sources: list[Any] = []

    async def note(self: Connection, *words: Any, **options: Any) -> Any:
        found = await get_each(self, *words, **options)
        sources.extend(each.source for each in found if isinstance(each, Document))
        return found

    monkeypatch.setattr(Connection, "get_each", note)
    detail = await store.get_test(WIDGETS, test_id)
    assert detail is not None
    assert detail.health.last_conclusion == "passed"
    assert b"matrix-" not in orjson.dumps(sources)
    report = await store.get_health(WIDGETS, test_id)
    assert report is not None
    assert len(report.jobs) == 60
