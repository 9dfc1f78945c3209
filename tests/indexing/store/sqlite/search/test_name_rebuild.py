"""A rebuild of the n-gram indexes: what it repairs, and what others may do meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store.interface import Store
from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.search.name_rebuild import NameRebuild
from tests.builders import FOREIGN, NOON, WIDGETS, load_names
from tests.new_stores import open_new_store

FILE = "mergewatch.db"
NAMES = [f"suite_{number // 100}::test_{number}" for number in range(450)]
INDEXES = ("test_trigrams", "test_bigrams")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_new_store(tmp_path)
    await load_names(opened, NAMES[:300])
    await load_names(opened, NAMES[300:], repository=FOREIGN)
    yield opened
    await opened.close()


@pytest.fixture
async def connections(store: Store, tmp_path: Path) -> AsyncIterator[Connections]:
    opened = Connections.open(tmp_path / FILE)
    yield opened
    await opened.close()


def read_indexes(folder: Path) -> dict[str, list[tuple[str, int]]]:
    """The n-grams of both indexes, each with the row numbers of its names."""
    found = {}
    with closing(sqlite3.connect(folder / FILE)) as connection:
        for index in INDEXES:
            connection.execute(
                f"CREATE VIRTUAL TABLE temp.terms USING fts5vocab (main, {index}, instance)"
            )
            terms = connection.execute("SELECT term, doc FROM temp.terms ORDER BY term, doc")
            found[index] = terms.fetchall()
            connection.execute("DROP TABLE temp.terms")
    return found


def list_objects(folder: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        listed = "SELECT type, name FROM sqlite_master ORDER BY type, name"
        return connection.execute(listed).fetchall()


async def finish(connections: Connections, rebuild: NameRebuild) -> int:
    """End a rebuild; return the number of its steps."""
    steps = 1
    while await connections.write(rebuild.write_some):
        steps += 1
    return steps


async def search(store: Store, pattern: str) -> list[str]:
    page = await store.search_tests(TestQuery(WIDGETS, (pattern,)), Anchor(), 1_000)
    return sorted(row.key.test_name for row in page.rows)


@pytest.mark.parametrize(
    "damage",
    [
        "INSERT INTO test_trigrams (test_trigrams) VALUES ('delete-all')",
        "INSERT INTO test_bigrams (rowid, name) VALUES (7, 'feed')",
        "UPDATE test_trigrams_data SET block = x'00' WHERE id > 10",
    ],
)
async def test_a_rebuild_repairs_the_indexes(store: Store, tmp_path: Path, damage: str) -> None:
    whole = read_indexes(tmp_path)
    objects = list_objects(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        connection.execute(damage)
    for _ in range(2):
        await store.rebuild(NOON)
        assert read_indexes(tmp_path) == whole
        assert list_objects(tmp_path) == objects


async def test_names_are_written_in_several_transactions(connections: Connections) -> None:
    rebuild = NameRebuild(1)
    await connections.write(rebuild.begin)
    assert await finish(connections, rebuild) > 2


async def test_tests_may_be_added_and_forgotten_meanwhile(
    store: Store, connections: Connections, tmp_path: Path
) -> None:
    rebuild = NameRebuild(1)
    await connections.write(rebuild.begin)
    for _ in range(2):
        await connections.write(rebuild.write_some)
    # The row id of the newest test is given again.
    await store.forget_test(FOREIGN, NAMES[-1], NOON)
    await load_names(store, ["newest_a"])
    assert await search(store, "*newest*") == ["newest_a"]
    await connections.write(rebuild.write_some)
    await load_names(store, ["newest_b"])
    for name in NAMES[0], "newest_b":
        await store.forget_test(WIDGETS, name, NOON)
    await load_names(store, ["newest_c"])
    await finish(connections, rebuild)
    found = read_indexes(tmp_path)
    assert await search(store, "*newest*") == ["newest_a", "newest_c"]
    assert await search(store, "*test_0") == []
    assert await search(store, "*e_2::test_2*") == sorted(NAMES[200:300])
    await store.rebuild(NOON)
    # Names that were removed meanwhile may be left.
    for index, pairs in read_indexes(tmp_path).items():
        assert {*pairs} <= {*found[index]}


async def test_a_rebuild_replaces_what_a_killed_one_has_left(
    store: Store, connections: Connections, tmp_path: Path
) -> None:
    objects = list_objects(tmp_path)
    killed = NameRebuild(1)
    await connections.write(killed.begin)
    await connections.write(killed.write_some)
    await load_names(store, ["added"])
    await store.rebuild(NOON)
    assert list_objects(tmp_path) == objects
    assert await search(store, "*added*") == ["added"]


async def test_a_rebuild_leaves_the_indexes_to_a_later_one(
    store: Store, connections: Connections, tmp_path: Path
) -> None:
    whole = read_indexes(tmp_path)
    earlier, later = NameRebuild(1), NameRebuild(2)
    await connections.write(earlier.begin)
    await connections.write(earlier.write_some)
    await connections.write(later.begin)
    assert await finish(connections, earlier) == 1
    assert read_indexes(tmp_path) == whole
    await finish(connections, later)
    assert await finish(connections, earlier) == 1
    assert read_indexes(tmp_path) == whole
    assert await search(store, "*test_42") == [NAMES[42]]
