"""`mergewatch index create` for a store whose indices were deleted by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices.control import STORE_DOCUMENT
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION
from indexing.store.interface import Store
from service.cli.running import with_store
from tests.builders import WIDGETS, load_names
from tests.service.cli.conftest import Command

pytestmark = [
    pytest.mark.fresh_indices,
    pytest.mark.parametrize("settings", ["elasticsearch"], indirect=True),
]


def ask(place: ElasticsearchPlace, method: str, target: str, body: Any = None) -> None:
    async def run() -> None:
        connection = Connection(place.urls)
        try:
            await connection.request(method, target, body)
        finally:
            await connection.close()

    asyncio.run(run())


async def read_rows(store: Store) -> Sequence[object]:
    page = await store.search_tests(TestQuery(WIDGETS, ("*",)), Anchor(), 10)
    details = [await store.get_test(WIDGETS, row.test_id) for row in page.rows]
    return [*page.rows, *details]


@pytest.fixture
def before(settings: Mapping[str, str]) -> Sequence[object]:
    """What is read of two stored tests."""
    assert settings
    with_store(lambda store: load_names(store, ["one", "two"]))
    rows = with_store(read_rows)
    assert len(rows) == 4
    return rows


@pytest.mark.parametrize("index", ["runs", "identities-1"])
def test_a_deleted_index_is_created_again_and_a_rebuild_fills_it(
    before: Sequence[object], command: Command, elasticsearch_place: ElasticsearchPlace, index: str
) -> None:
    name = f"{elasticsearch_place.prefix}-{index}"
    ask(elasticsearch_place, "DELETE", f"/{name}")
    assert "index_not_found" in command("index", "rebuild", code=1).stderr
    told = command("index", "create").stderr
    assert f"the index {name} was missing" in told
    assert told.endswith("the store is ready\n")
    command("index", "rebuild")
    assert with_store(read_rows) == before
    assert command("index", "create").stderr == "the store is ready\n"


def test_the_index_of_tests_is_not_created_empty(
    settings: Mapping[str, str], command: Command, elasticsearch_place: ElasticsearchPlace
) -> None:
    assert settings
    with_store(lambda store: load_names(store, ["one"]))
    name = f"{elasticsearch_place.prefix}-tests"
    ask(elasticsearch_place, "DELETE", f"/{name}")
    assert f"the index {name} is missing" in command("index", "create", code=1).stderr


def test_a_search_index_without_its_name_gets_it_back(
    before: Sequence[object], command: Command, elasticsearch_place: ElasticsearchPlace
) -> None:
    alias = f"{elasticsearch_place.prefix}-identities"
    removal = {"remove": {"index": f"{alias}-1", "alias": alias}}
    ask(elasticsearch_place, "POST", "/_aliases", {"actions": [removal]})
    assert command("index", "create").stderr == "the store is ready\n"
    assert with_store(read_rows) == before


def test_a_search_index_of_an_earlier_version_gets_its_name_back_before_the_upgrade(
    before: Sequence[object], command: Command, elasticsearch_place: ElasticsearchPlace
) -> None:
    # As after a restore of an old snapshot under another prefix.
    alias = f"{elasticsearch_place.prefix}-identities"
    removal = {"remove": {"index": f"{alias}-1", "alias": alias}}
    ask(elasticsearch_place, "POST", "/_aliases", {"actions": [removal]})
    earlier = {"doc": {"version": LAYOUT_VERSION - 1}}
    control = f"/{elasticsearch_place.prefix}-control/_update/{STORE_DOCUMENT}"
    ask(elasticsearch_place, "POST", control, earlier)
    assert command("index", "create").stderr.endswith("the store is ready\n")
    assert with_store(read_rows) == before


def test_of_several_search_indices_with_the_name_readers_use_the_one_that_is_complete(
    before: Sequence[object], command: Command, elasticsearch_place: ElasticsearchPlace
) -> None:
    # As after a restore of a snapshot that was made during a rebuild.
    name = f"{elasticsearch_place.prefix}-identities"
    ask(elasticsearch_place, "PUT", f"/{name}-killed")
    alias = {"add": {"index": f"{name}-*", "alias": name}}
    ask(elasticsearch_place, "POST", "/_aliases", {"actions": [alias]})
    assert "the name of 2 indices" in command("index", "rebuild", code=1).stderr
    assert command("index", "create").stderr == "the store is ready\n"
    assert with_store(read_rows) == before
    command("index", "rebuild")
    assert with_store(read_rows) == before
