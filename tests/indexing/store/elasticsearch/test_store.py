"""What is particular to the backend over Elasticsearch, on a real node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from indexing import globs
from indexing.errors import StoreError, StoreUnavailableError, StoreVersionError
from indexing.identifiers import derive_test_id
from indexing.models.events import EventQuery
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import TestQuery
from indexing.quarantine.configuration import describe_change
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch import bulk, executions, runs, setup
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.connection import TooComplexError
from indexing.store.elasticsearch.control import Control
from indexing.store.elasticsearch.layout import Layout
from indexing.store.elasticsearch.repositories import make_known, replace_repository
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import EventOutcome, ExecutionCount
from tests.builders import (
    NOON,
    WIDGETS,
    after,
    load_names,
    make_event,
    make_executions,
    make_run,
)

ALL = TestQuery(WIDGETS, ("*",))
PASSED = Conclusion.PASSED


async def open_at(place: ElasticsearchPlace) -> ElasticsearchStore:
    return await ElasticsearchStore.open(place.urls, prefix=place.prefix, api_key=place.api_key)


@pytest.fixture
async def store(elasticsearch_place: ElasticsearchPlace) -> AsyncIterator[ElasticsearchStore]:
    opened = await open_at(elasticsearch_place)
    yield opened
    await opened.close()


@pytest.fixture
async def other(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace
) -> AsyncIterator[ElasticsearchStore]:
    """The same store as another process has it."""
    opened = await open_at(elasticsearch_place)
    yield opened
    await opened.close()


def cluster_of(store: ElasticsearchStore) -> Cluster:
    return store._cluster


async def ask(store: ElasticsearchStore, method: str, target: str, body: Any = None) -> Any:
    return await cluster_of(store).connection.request(method, target, body)


async def indices_of(store: ElasticsearchStore, name: str) -> list[str]:
    pattern = f"{cluster_of(store).layout.prefix}-{name}-*"
    found = await ask(store, "GET", f"/{pattern}/_settings")
    return sorted(index.removeprefix(pattern[:-1]) for index in found)


async def names(store: ElasticsearchStore, query: TestQuery = ALL) -> list[str]:
    page = await store.search_tests(query, Anchor(), 1_000)
    return sorted(row.key.test_name for row in page.rows)


async def event_ids(store: ElasticsearchStore) -> list[int]:
    query = EventQuery(WIDGETS, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
    return [row.key.id for row in (await store.list_events(query, Anchor(), 100)).rows]


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
    with pytest.raises(StoreVersionError, match="of version 99; this program reads 1"):
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
    # Somebody's own mapping gets in the way.
    index = f"/{cluster_of(store).layout.events_of('2026-09')}"
    await ask(store, "PUT", index, {"mappings": {"properties": {"base_ref": {"type": "long"}}}})
    events = [make_event(1), make_event(2, base_ref="main"), make_event(3)]
    outcomes = await store.write_events(events)
    assert outcomes == [EventOutcome.WRITTEN, EventOutcome.REFUSED, EventOutcome.WRITTEN]
    assert await event_ids(store) == [3, 1]


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


async def test_part_of_an_answer_is_an_error(store: ElasticsearchStore) -> None:
    await load_names(store, ["t"])
    # A field of one slice that cannot be sorted by makes that shard alone fail.
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


async def test_searches_are_whole_while_a_rebuild_goes_on(store: ElasticsearchStore) -> None:
    stored = [f"t{n:03}" for n in range(300)]
    await load_names(store, stored)
    before = await indices_of(store, "identities")
    rebuilding = asyncio.create_task(store.rebuild(NOON))
    searches = 0
    while not rebuilding.done():
        assert await names(store) == stored
        searches += 1
    assert (await rebuilding, await names(store)) == (300, stored)
    assert searches > 1
    after_it = await indices_of(store, "identities")
    assert len(after_it) == 1
    assert after_it != before


async def test_what_is_written_during_a_rebuild_is_in_both_generations(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await load_names(store, [f"t{n}" for n in range(200)])
    rebuilding = asyncio.create_task(store.rebuild(NOON))
    number = 0
    while not rebuilding.done():
        await load_names(other, [f"new{number}"], make_run(f"r{number}"))
        assert f"new{number}" in await names(other)
        number += 1
    await rebuilding
    assert {f"new{n}" for n in range(number)} <= set(await names(store))


async def test_a_rebuild_that_was_broken_off_is_done_again_from_the_beginning(
    store: ElasticsearchStore,
) -> None:
    stored = sorted(f"t{n}" for n in range(50))
    await load_names(store, stored)
    done = 0
    for turns in range(1, 200, 7):
        rebuilding = asyncio.create_task(store.rebuild(NOON))
        for _ in range(turns * 5):
            await asyncio.sleep(0)
        rebuilding.cancel()
        done += (await asyncio.gather(rebuilding, return_exceptions=True))[0] == 50
        assert await names(store) == stored
    assert await store.rebuild(NOON) == 50
    assert await names(store) == stored
    assert len(await indices_of(store, "identities")) == 1


async def test_of_two_rebuilds_at_once_the_later_one_wins(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    stored = sorted(f"t{n}" for n in range(100))
    await load_names(store, stored)
    ends = await asyncio.gather(store.rebuild(NOON), other.rebuild(NOON), return_exceptions=True)
    assert any(isinstance(end, int) for end in ends), ends
    assert all(isinstance(end, int | StoreError) for end in ends), ends
    assert await names(store) == stored
    # A step that was under way may have left something of a generation that is gone.
    assert await store.rebuild(NOON) == 100
    assert len(await indices_of(store, "identities")) == 1


async def test_retention_drops_whole_slices_and_hides_the_rest(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    moments = [after(days=days) for days in (-70, -40, -10, 0)]
    await store.write_events([make_event(n, at) for n, at in enumerate(moments)])
    assert await indices_of(store, "events") == ["2026-06", "2026-07", "2026-08", "2026-09"]
    count = await store.prune(after(days=-5), NOON)
    assert (count.events, await event_ids(store)) == (3, [3])
    assert await indices_of(store, "events") == ["2026-08", "2026-09"]
    assert (await store.get_status()).events == 1


@pytest.mark.parametrize("same", [True, False])
async def test_what_retention_hid_can_be_loaded_again(
    store: ElasticsearchStore, same: bool
) -> None:
    await store.ensure_repository(WIDGETS)
    event = make_event(1)
    await store.write_events([event, make_event(2, after(hours=2))])
    run = make_run()
    both = make_executions(run, [("t", PASSED), ("u", PASSED)])
    await store.write_executions(WIDGETS, run, both)
    await store.prune(after(hours=1), NOON)
    assert await event_ids(store) == [2]
    assert await names(store) == []

    again = event if same else make_event(1, trigger="another")
    assert await store.write_events([again]) == [EventOutcome.WRITTEN]
    assert await store.write_events([again]) == [EventOutcome.UNCHANGED]
    assert await event_ids(store) == [2, 1]
    assert await store.write_executions(WIDGETS, run, both) == ExecutionCount(2, 0)
    assert await store.write_executions(WIDGETS, run, both) == ExecutionCount(0, 2)
    await store.refresh_tests(NOON)
    assert await names(store) == ["t", "u"]
    assert (await store.prune(after(hours=1), NOON)).executions == 2
    assert await names(store) == []


async def test_an_execution_stays_one_though_its_time_moves_to_another_month(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    (execution,) = make_executions(run, [("t", PASSED)])
    for days in (0, 45, -45):
        moved = replace(execution, finished_at=after(days=days))
        count = await store.write_executions(WIDGETS, run, [moved])
        assert count == ExecutionCount(int(days == 0), int(days != 0))
    await store.refresh_tests(NOON)
    (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.executions_count == 1


async def test_writers_at_once_end_in_the_state_of_all_of_them(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)

    async def load(through: ElasticsearchStore, number: int) -> None:
        run = make_run(str(number), commit=str(number))
        both = make_executions(run, [("t", PASSED), ("u", PASSED)], after(hours=number))
        await through.write_executions(WIDGETS, run, both)
        await through.refresh_tests(NOON)

    await asyncio.gather(*(load((store, other)[n % 2], n) for n in range(12)))
    page = await store.search_tests(ALL, Anchor(), 10)
    assert [row.key.executions_count for row in page.rows] == [12, 12]
    assert (await store.get_status()).stale_tests == 0


async def test_rows_that_a_cut_refresh_left_are_gone_after_the_next_one(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, ["t"], make_run("1", job="old", branch="dev"))
    await load_names(store, ["t"], make_run("2", job="new"))
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="dev"), NOON)
    await store.refresh_tests(NOON)
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="main"), NOON)
    send = bulk.send

    async def send_no_rows(connection: Any, operations: Any, **rest: Any) -> Any:
        if operations and "-identities-" in operations[0].index:
            raise StoreUnavailableError("the node is gone")
        return await send(connection, operations, **rest)

    monkeypatch.setattr(bulk, "send", send_no_rows)
    with pytest.raises(StoreUnavailableError):
        await store.refresh_tests(NOON)
    monkeypatch.undo()
    await store.refresh_tests(NOON)
    (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.job_name == "new"


async def test_shards_of_a_run_that_are_judged_at_once_are_judged_together(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer counts everything while this one is about to write what it counted."""
    await store.ensure_repository(WIDGETS)
    run = make_run()
    failed = make_executions(run, [(f"t{n}", Conclusion.FAILED) for n in range(30)])
    passed = make_executions(run, [(f"g{n}", PASSED) for n in range(100)])
    find_tests = runs._find_tests

    async def find_slowly(*asked: Any) -> Any:
        monkeypatch.undo()
        await other.write_executions(WIDGETS, run, passed)
        return await find_tests(*asked)

    monkeypatch.setattr(runs, "_find_tests", find_slowly)
    await store.write_executions(WIDGETS, run, failed)
    await store.refresh_tests(NOON)
    found = await store.get_test(WIDGETS, derive_test_id(WIDGETS, "t0"))
    assert found is not None
    assert found.health.failure_ratio == 1.0


async def test_a_refresh_before_the_executions_does_not_use_up_their_mark(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is killed as soon as its executions are there."""
    await store.ensure_repository(WIDGETS)
    run = make_run()

    write = executions._store

    async def write_and_die(*asked: Any) -> None:
        await other.refresh_tests(NOON)
        await write(*asked)
        raise ConnectionAbortedError

    monkeypatch.setattr(executions, "_store", write_and_die)
    with pytest.raises(ConnectionAbortedError):
        await store.write_executions(WIDGETS, run, make_executions(run, [("t", PASSED)]))
    assert (await other.get_status()).stale_tests == 1
    await other.refresh_tests(NOON)
    assert await names(other) == ["t"]


async def test_an_event_that_a_killed_change_of_settings_left_is_written_by_the_next_one(
    store: ElasticsearchStore,
) -> None:
    stored = await make_known(cluster_of(store), WIDGETS)
    changed = replace(stored.repository, auto_quarantine=True)
    await replace_repository(
        cluster_of(store),
        stored,
        changed,
        settings_version=1,
        announcement=describe_change(stored.repository, changed, NOON),
    )
    assert await event_ids(store) == []
    for _ in range(2):
        await store.set_repository(WIDGETS, RepositoryChange(), after(hours=1))
        assert len(await event_ids(store)) == 1


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
