"""Rebuilds of the search during reads and writes, interrupted, and overtaken by others."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch import search_generations
from indexing.store.elasticsearch.indices import filling
from indexing.store.elasticsearch.indices.creation import create_index
from indexing.store.elasticsearch.indices.filling import restore_settings
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, load_names, make_run
from tests.indexing.store.elasticsearch.inspection import (
    ask,
    cluster_of,
    indices_of,
    names,
    open_at,
    run_before,
)

pytestmark = pytest.mark.fresh_indices


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


async def test_an_interrupted_rebuild_starts_again(
    store: ElasticsearchStore,
) -> None:
    stored = sorted(f"t{n}" for n in range(50))
    await load_names(store, stored)
    for turns in range(1, 200, 7):
        rebuilding = asyncio.create_task(store.rebuild(NOON))
        for _ in range(turns * 5):
            await asyncio.sleep(0)
        rebuilding.cancel()
        await asyncio.gather(rebuilding, return_exceptions=True)
        assert await names(store) == stored
    # The cluster may receive the markers of a cancelled rebuild late; these tests count twice.
    assert await store.rebuild(NOON) in (50, 100)
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
    # A step in progress may have left something of a deleted generation, and markers: the next
    # rebuild computes their tests once more.
    await store.rebuild(NOON)
    assert await store.rebuild(NOON) == 100
    assert len(await indices_of(store, "identities")) == 1


async def settings_of_generations(store: ElasticsearchStore) -> list[dict[str, str]]:
    pattern = cluster_of(store).layout.identities_of("*")
    target = f"/{pattern}/_settings?flat_settings=true&include_defaults=true"
    found = await ask(store, "GET", target)
    wanted = ("index.refresh_interval", "index.auto_expand_replicas")
    return [
        {name: (index["defaults"] | index["settings"])[name] for name in wanted}
        for index in found.values()
    ]


async def test_a_rebuilt_index_has_the_settings_of_a_new_one(store: ElasticsearchStore) -> None:
    await load_names(store, ["t"])
    before = await settings_of_generations(store)
    await store.rebuild(NOON)
    assert await settings_of_generations(store) == before


async def test_the_settings_of_a_killed_rebuild_are_put_back_when_the_store_is_opened(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace
) -> None:
    await load_names(store, [f"t{n}" for n in range(100)])
    (normal,) = await settings_of_generations(store)

    def stop(_: int) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        await store.rebuild(NOON, stop)
    left = await settings_of_generations(store)
    assert len(left) == 2
    assert any(each["index.refresh_interval"] == "-1" for each in left)
    opened = await open_at(elasticsearch_place)
    await opened.close()
    assert await settings_of_generations(store) == [normal, normal]


async def test_a_rebuild_gives_a_slow_cluster_time_to_answer_that_replicas_are_not_ready(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = cluster_of(store).connection
    request, waits = connection.request, []

    async def note(method: str, target: str, body: Any = None, **options: Any) -> Any:
        if "/_cluster/health/" in target:
            (wait,) = parse_qs(urlsplit(target).query)["timeout"]
            waits.append((float(wait.removesuffix("s")), options["timeouts"]))
        return await request(method, target, body, **options)

    monkeypatch.setattr(connection, "request", note)
    await store.rebuild(NOON)
    ((wait, timeouts),) = waits
    assert 0 < wait < timeouts.attempt


async def test_nobody_waits_for_a_generation_that_another_rebuild_has_deleted(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, ["t"])
    cluster = cluster_of(store)
    generation = cluster.layout.identities_of("killed")
    await create_index(cluster.connection, generation)

    async def delete() -> None:
        await ask(store, "DELETE", f"/{generation}")

    # Longer than the client waits: that would be an error.
    monkeypatch.setattr(filling, "_REPLICAS_WAIT", "10m")
    run_before(store, monkeypatch, lambda target, _: "/_cluster/health/" in target, delete)
    await restore_settings(cluster.connection, generation)
    assert len(await indices_of(store, "identities")) == 1


async def test_a_rebuild_that_cannot_create_its_index_leaves_the_store_as_it_was(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, ["t"])
    before = await cluster_of(store).control.read()

    async def refuse(*_: object) -> None:
        raise StoreUnavailableError("no room")

    monkeypatch.setattr(search_generations, "create_index", refuse)
    with pytest.raises(StoreUnavailableError, match="no room"):
        await store.rebuild(NOON)
    assert await cluster_of(store).control.read() == before
    await load_names(store, ["u"])
    assert await names(store) == ["t", "u"]


class KilledError(Exception):
    """Stands for a kill."""
