"""Stores of earlier releases open and give the same answers, even after interrupted migrations."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from indexing.errors import StoreError, StoreUnavailableError, StoreVersionError
from indexing.models.paging import Anchor
from indexing.models.tests import HealthStatus, IdentityKey, TestMetrics, TestQuery
from indexing.store import find_versions, open_store
from indexing.store.sqlite import schema
from indexing.store.sqlite.metrics_filling import is_filled
from indexing.store.sqlite.migrations import MIGRATIONS
from indexing.store.sqlite.schema import SCHEMA_VERSION, ensure_schema
from tests.builders import GADGETS, NOON, WIDGETS
from tests.forked import ForkedCommand
from tests.indexing.store.sqlite.versions import (
    Sample,
    dump_of,
    load_sample,
    load_samples,
    schema_of,
    version_of,
)
from tests.service.processes import TIMEOUT

ROOT = Path(__file__).parents[4]
KILLS = 50

every_version = pytest.mark.parametrize(
    "sample", load_samples(), ids=lambda sample: f"version {sample.version}"
)


@pytest.fixture
def oldest() -> Sample:
    return load_samples()[0]


@every_version
async def test_a_store_of_an_earlier_release_answers_as_it_did_then(
    sample: Sample, tmp_path: Path
) -> None:
    path = sample.unpack(tmp_path)
    await sample.check_answers(tmp_path)
    assert version_of(path) == SCHEMA_VERSION


@every_version
async def test_a_migrated_store_has_the_tables_of_a_new_one(sample: Sample, tmp_path: Path) -> None:
    old = sample.unpack(tmp_path / "old")
    for folder in ("old", "new"):
        await (await open_store(tmp_path / folder)).close()
    assert schema_of(old) == schema_of(tmp_path / "new" / "mergewatch.db")


@every_version
async def test_a_migrated_store_is_written_to_as_a_new_one(sample: Sample, tmp_path: Path) -> None:
    sample.unpack(tmp_path)
    store = await open_store(tmp_path)
    before = await store.get_status(NOON)
    await store.ensure_repository(GADGETS)
    assert (await store.get_status(NOON)).repositories == before.repositories + 1
    await store.close()


async def test_stale_tests_stay_stale(tmp_path: Path) -> None:
    with closing(sqlite3.connect(load_sample(16).unpack(tmp_path))) as connection:
        connection.execute("INSERT INTO stale_tests SELECT id, id % 2 FROM tests WHERE id % 3")
        before = connection.execute("SELECT test, recompute FROM stale_tests").fetchall()
        connection.commit()
    await _open_and_close(tmp_path)
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        assert connection.execute("SELECT test, recompute FROM stale_tests").fetchall() == before
        names = "SELECT s.repository_id FROM stale_tests s ORDER BY s.test"
        owners = "SELECT t.repository_id FROM tests t WHERE t.id % 3 ORDER BY t.id"
        assert connection.execute(names).fetchall() == connection.execute(owners).fetchall() != []


def test_a_migration_that_is_killed_at_any_point_loses_nothing(
    oldest: Sample, tmp_path: Path
) -> None:
    path = oldest.unpack(tmp_path)
    before = dump_of(path)
    oldest.unpack(tmp_path / "undisturbed")
    asyncio.run(_open_and_close(tmp_path / "undisturbed"))
    migrated = dump_of(tmp_path / "undisturbed" / "mergewatch.db")
    script = Path(__file__).with_name("interrupted_migration.py")
    done = subprocess.run(
        [sys.executable, script, path, str(KILLS)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Enough steps that all points differ, and most lie within a statement.
    assert int(done.stdout) > KILLS
    assert version_of(tmp_path / "mergewatch.db.whole") == SCHEMA_VERSION + 2
    for number in range(KILLS):
        folder = tmp_path / f"killed-{number}"
        folder.mkdir()
        for end in ("", "-wal", "-shm"):
            left = tmp_path / f"mergewatch.db.{number}{end}"
            if left.exists():
                left.rename(folder / f"mergewatch.db{end}")
        killed = folder / "mergewatch.db"
        assert version_of(killed) == oldest.version
        assert dump_of(killed) == before
        asyncio.run(_open_and_close(folder))
        assert version_of(killed) == SCHEMA_VERSION
        assert dump_of(killed) == migrated
        # Identical files give identical answers, so checking every tenth is enough.
        if number % 10 == 0:
            asyncio.run(oldest.check_answers(folder))


def test_a_migration_that_fails_changes_nothing(oldest: Sample, tmp_path: Path) -> None:
    path = oldest.unpack(tmp_path)
    before = dump_of(path)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM executions")
        raise ZeroDivisionError

    with (
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
        pytest.raises(ZeroDivisionError),
    ):
        ensure_schema(connection, (*MIGRATIONS, fail))
    assert (version_of(path), dump_of(path)) == (oldest.version, before)


async def test_of_processes_that_start_together_one_migrates(
    oldest: Sample, tmp_path: Path
) -> None:
    oldest.unpack(tmp_path)
    environment = {"MERGEWATCH_DATA_DIR": str(tmp_path)}
    commands = [ForkedCommand("index", "create", environment=environment) for _ in range(4)]
    ended = [command.wait() for command in commands]
    told = [each.stderr for each in ended]
    assert {each.returncode for each in ended} == {0}
    assert sum("upgraded the store" in text for text in told) == 1, told
    await oldest.check_answers(tmp_path)


def test_a_process_that_has_to_wait_for_a_migration_says_so(
    oldest: Sample,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = oldest.unpack(tmp_path)
    monkeypatch.setattr(schema, "_WAITING_SECONDS", 0)
    waits = threading.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "waiting for another process" in record.getMessage():
                waits.set()

    logging.getLogger(schema.__name__).addHandler(handler := Told())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        opening = threading.Thread(target=lambda: asyncio.run(_open_and_close(tmp_path)))
        opening.start()
        assert waits.wait(TIMEOUT)
        other.execute("COMMIT")
        opening.join(TIMEOUT)
    logging.getLogger(schema.__name__).removeHandler(handler)
    assert version_of(path) == SCHEMA_VERSION


async def _open_and_close(folder: Path) -> None:
    await (await open_store(folder)).close()


def test_a_long_migration_reports_progress(
    oldest: Sample,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(schema, "_PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(schema, "_STEPS_PER_LOOK", 10)

    def migrate(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE executions SET duration = 1 WHERE id > 0")

    with closing(sqlite3.connect(oldest.unpack(tmp_path), isolation_level=None)) as connection:
        ensure_schema(connection, (*MIGRATIONS, migrate))
    assert f"upgrading the store to version {SCHEMA_VERSION + 1}" in caplog.text


async def test_a_store_of_a_newer_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    await _open_and_close(tmp_path)
    path = tmp_path / "mergewatch.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match=f"version 99.*up to {SCHEMA_VERSION}.*backup"):
        await open_store(tmp_path)
    assert path.read_bytes() == before
    versions = await find_versions(tmp_path)
    assert versions is not None
    assert (versions.stored, versions.known) == (99, SCHEMA_VERSION)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE books (title TEXT)"],
        ["CREATE TABLE books (title TEXT)", "PRAGMA user_version = 1"],
        ["CREATE TABLE books (title TEXT)", f"PRAGMA user_version = {SCHEMA_VERSION}"],
        ["PRAGMA application_id = 252006675"],
    ],
)
async def test_a_database_of_another_application_is_refused_and_left_alone(
    tmp_path: Path, statements: list[str]
) -> None:
    path = tmp_path / "mergewatch.db"
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="not a store of mergewatch"):
        await open_store(tmp_path)
    assert path.read_bytes() == before


async def test_a_process_whose_store_was_upgraded_by_another_release_writes_no_more(
    tmp_path: Path,
) -> None:
    store = await open_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StoreVersionError, match="Restart this process"):
        await store.ensure_repository(GADGETS)
    assert await store.find_repository(GADGETS) is None
    await store.close()


async def test_reads_of_tables_that_another_release_has_changed_are_unavailable(
    tmp_path: Path,
) -> None:
    store = await open_store(tmp_path)
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        connection.execute("ALTER TABLE repositories RENAME COLUMN default_branch TO branch")
        connection.execute("ALTER TABLE quarantines RENAME COLUMN removed_at TO ended_at")
        # As long as nobody has upgraded the store, this program is wrong.
        with pytest.raises(StoreError, match="no such column") as failure:
            await store.find_repository(WIDGETS)
        assert not isinstance(failure.value, StoreUnavailableError)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StoreVersionError, match="Restart this process"):
        await store.find_repository(WIDGETS)
    # This one runs in a thread.
    with pytest.raises(StoreVersionError, match="Restart this process"):
        await store.get_status(NOON)
    await store.close()


@every_version
async def test_rows_of_an_earlier_release_have_the_metrics_of_a_full_computation(
    sample: Sample, tmp_path: Path
) -> None:
    sample.unpack(tmp_path)
    store = await open_store(tmp_path)

    async def read() -> dict[IdentityKey, TestMetrics | None]:
        found: dict[IdentityKey, TestMetrics | None] = {}
        for repository in await store.list_repositories():
            query = TestQuery(repository.name, ("*",), with_metrics=True)
            rows = (await store.search_tests(query, Anchor(), 1_000)).rows
            found |= {row.key: row.metrics for row in rows}
        return found

    filled = await read()
    await store.rebuild(NOON)
    assert await read() == filled
    await store.close()
    assert len(filled) > 10
    assert {metrics.health_status for metrics in filled.values() if metrics} >= {
        HealthStatus.HEALTHY,
        HealthStatus.BROKEN,
    }
    # Opened again, there is nothing to do.
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        assert is_filled(connection)
