"""A rebuild of the SQLite file: what it repairs, and how much it does for a test."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from indexing.store import open_store
from indexing.store.sqlite.connections import connect
from indexing.store.sqlite.maintenance import mark_all
from indexing.store.sqlite.refresh import refresh_some
from tests.builders import NOON, WIDGETS
from tests.indexing.store.sqlite.derived_data import dump
from tests.load_steps import FAILED, PASSED, Report, load
from tests.new_stores import open_new_store

FILE = "mergewatch.db"
DAYS = 5


async def fill(folder: Path) -> None:
    store = await open_new_store(folder)
    await store.ensure_repository(WIDGETS)
    for day in range(DAYS):
        conclusion = FAILED if day == 2 else PASSED
        await load(store, WIDGETS, Report(24 * (day - DAYS), f"c{day}", conclusion), number=day)
    await store.refresh_tests(NOON)
    await store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tests SET health_status = 'broken'",
        "UPDATE tests SET framework = 'other'",
        "UPDATE tests SET success_ratio = 1",
        "UPDATE identities SET executions_count = 99",
        "UPDATE rollups SET state = CAST('[2]' AS BLOB)",
        "UPDATE rollups SET branch = NULL",
        "DELETE FROM rollups",
        "UPDATE daily_rollups SET passed = 99",
        "UPDATE daily_rollups SET health = 'broken'",
        "DELETE FROM daily_rollups WHERE day % 2 = 0",
        "UPDATE daily_rollups SET day = day + 100",
        "INSERT INTO unmerged SELECT identity, id FROM executions",
    ],
)
async def test_a_rebuild_repairs_derived_rows(tmp_path: Path, damage: str) -> None:
    await fill(tmp_path)
    whole = dump(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        assert connection.execute(damage).rowcount > 0
    store = await open_store(tmp_path)
    await store.rebuild(NOON)
    await store.close()
    assert dump(tmp_path) == whole
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM unmerged").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM stale_tests").fetchone() == (0,)


async def test_a_rebuild_writes_nothing_for_a_test_that_is_right(tmp_path: Path) -> None:
    await fill(tmp_path)
    with closing(connect(tmp_path / FILE, 10, sqlite3.Connection)) as connection:
        tests, _ = mark_all(connection)
        written: list[str] = []
        connection.set_trace_callback(
            lambda statement: None if statement.startswith("SELECT") else written.append(statement)
        )
        assert refresh_some(connection, tests, NOON, None, 10, noting=False)[0] == tests > 0
    # They remove the markers.
    assert len(written) == 2 * tests
    assert all(statement.startswith("DELETE FROM") for statement in written)
