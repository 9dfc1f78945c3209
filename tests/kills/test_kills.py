"""A load that is killed at any moment and repeated ends in the state of an uninterrupted one.

`make kills` does so a hundred times for each store.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from indexing.store import open_store
from indexing.store.elasticsearch.client.bulk import Operation, send
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.interface import StoreStatus
from tests.builders import NOON
from tests.kills.commands import kill, run
from tests.kills.loads import LOADS, Load
from tests.places import Place
from tests.servers.indices import Indices
from tests.whole_state import read_all, read_status

# Confirmed kills of each load over each store.
KILLS = int(os.environ.get("MERGEWATCH_TEST_KILLS", "2"))
# A kill that came too early or too late is repeated.
TRIES_A_KILL = 20

MakePlace = Callable[[], Place]


@pytest.fixture(params=["sqlite", "elasticsearch"])
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> MakePlace:
    """Returns a function that makes an empty store and drops the one before it."""
    if request.param == "elasticsearch":
        indices: Indices = request.getfixturevalue("fresh_indices")

        def make_empty() -> Place:
            indices.drop()
            return indices.place

        return make_empty

    def make_folder() -> Place:
        folder = tmp_path / "store"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    return make_folder


@pytest.mark.parametrize("name", LOADS)
def test_a_killed_load_that_is_run_again_ends_in_the_state_of_a_clean_one(
    make_place: MakePlace,
    tmp_path: Path,
    name: str,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    load = LOADS[name](tmp_path)
    place = make_place()
    asyncio.run(prepare(place, load))
    lasts = run(place, load.arguments)
    expected = asyncio.run(read_all(place, load.repositories))
    moments = random.Random(name)
    confirmed = tries = 0
    while confirmed < KILLS:
        tries += 1
        assert tries <= KILLS * TRIES_A_KILL
        place = make_place()
        before = asyncio.run(prepare(place, load))
        ran = kill(place, load.arguments, after=moments.uniform(0, lasts))
        if ran and asyncio.run(read_status(place)) != before:
            confirmed += 1
            run(place, load.arguments)
            found = asyncio.run(read_all(place, load.repositories))
            assert without_stale(found) == without_stale(expected)
            asyncio.run(let_markers_end(place))
            assert asyncio.run(read_all(place, load.repositories)) == expected
    record_testsuite_property(f"{name}: kills, tried and confirmed", (tries, confirmed))


def without_stale(lines: list[str]) -> list[str]:
    """The state without the number of tests that wait for a refresh."""
    return [line for line in lines if not line.startswith("stale_tests ")]


async def let_markers_end(place: Place) -> None:
    """Expire the dirty markers of a killed writer now; they would expire by themselves later.

    Until a marker expires, Elasticsearch cannot tell a killed writer from a slow one.
    """
    if isinstance(place, Path):
        return
    index = Layout(place.prefix).stale
    connection = Connection(place.urls)
    try:
        await connection.refresh(index)
        answer = await connection.search(index, {"size": 1_000})
        markers = [
            Operation("index", index, hit["_id"], None, hit["_source"] | {"ahead_until": 0})
            for hit in answer["hits"]["hits"]
        ]
        await send(connection, markers, visible=True)
    finally:
        await connection.close()
    store = await open_store(place)
    await store.refresh_tests(datetime.now(UTC))
    await store.close()


async def prepare(place: Place, load: Load) -> StoreStatus:
    """Create the store and its repository settings; return the store's status."""
    store = await open_store(place)
    try:
        for repository in load.repositories:
            await store.set_repository(repository, load.settings, NOON)
        return await store.get_status(NOON)
    finally:
        await store.close()
