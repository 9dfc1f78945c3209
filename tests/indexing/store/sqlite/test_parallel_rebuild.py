"""A rebuild whose tests are computed by several processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.executions import Conclusion
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.store import open_store
from indexing.store.interface import Store
from indexing.store.sqlite import rebuilding
from indexing.store.sqlite.connections import Connections, connect
from indexing.store.sqlite.maintenance import rebuild_derived
from indexing.store.sqlite.refresh import compute_changed_rows, write_computed
from indexing.store.sqlite.refreshed_rows import RefreshedRows
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.sqlite.test_rollups import dump

FILE = "mergewatch.db"
PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
# More than one step for each process.
NAMES = [f"t{number}" for number in range(450)]
DAYS = 4


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    asyncio.run(_fill(folder))
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "data")


@pytest.fixture
def many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "_FEW_TESTS", 0)
    monkeypatch.setattr(rebuilding, "_count_processors", lambda: 3)


async def _fill(folder: Path) -> None:
    """Store tests that pass, break and flake, and quarantines of both kinds."""
    store = await open_store(folder)
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    for day in range(DAYS):
        await load(store, day)
    await store.add_quarantine(WIDGETS, QuarantineRequest("t0", "by hand"), NOON)
    await store.close()


async def load(store: Store, day: int) -> None:
    run = make_run(str(day), commit=f"c{day // 2}")
    results = [
        (name, FAILED if number % 100 == 7 and day % 2 else PASSED)
        for number, name in enumerate(NAMES)
    ]
    await store.write_results(
        WIDGETS, {run: make_executions(run, results, after(days=day - DAYS), duration=0.5)}
    )
    await store.refresh_tests(NOON)


async def rebuild(folder: Path) -> list[int]:
    """Rebuild the store; return how many tests it said were done, in turn."""
    told: list[int] = []
    store = await open_store(folder)
    assert await store.rebuild(NOON, told.append) == len(NAMES)
    assert await store.count_stale_tests() == 0
    await store.close()
    return told


@pytest.mark.usefixtures("many_processes")
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tests SET health_status = 'broken'",
        "UPDATE identities SET executions_count = 99 WHERE id % 3 = 0",
        "UPDATE rollups SET state = CAST('[2]' AS BLOB)",
        "DELETE FROM rollups",
        "DELETE FROM daily_rollups WHERE day % 2 = 0",
        "UPDATE tests SET history = CAST('damaged' AS BLOB) WHERE id = 9",
        "INSERT INTO unmerged SELECT t.id, (SELECT max(id) FROM executions) FROM tests t",
        "DELETE FROM stale_tests",
    ],
)
async def test_processes_repair_what_one_process_repairs(folder: Path, damage: str) -> None:
    whole = dump(folder)
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        connection.execute(damage)
    told = await rebuild(folder)
    assert dump(folder) == whole
    assert told == sorted(told)
    assert told[-1] == len(NAMES)


@pytest.mark.usefixtures("many_processes")
async def test_processes_compute_all_tests_that_need_no_other_writes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def count(connection: sqlite3.Connection, **rest: Any) -> int:
        nonlocal written
        done = write_computed(connection, **rest)
        written += done
        return done

    monkeypatch.setattr(rebuilding, "write_computed", count)
    await rebuild(folder)
    with closing(sqlite3.connect(folder / FILE)) as connection:
        query = "SELECT count(DISTINCT test_id) FROM quarantines WHERE removed_at IS NULL"
        (quarantined,) = connection.execute(query).fetchone()
    assert quarantined > 1
    assert written == len(NAMES) - quarantined


@pytest.fixture
async def connections(folder: Path) -> AsyncIterator[Connections]:
    opened = Connections.open(folder / FILE)
    yield opened
    await opened.close()


async def add_result(store: Store) -> None:
    run = make_run("late", commit="late")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t5", FAILED)])})


async def add_and_judge(store: Store) -> None:
    await add_result(store)
    await store.refresh_tests(NOON, repository=WIDGETS)


async def add_judge_and_mark(store: Store) -> None:
    await add_and_judge(store)
    await store._connections.write(rebuild_derived)  # type: ignore[attr-defined]


async def prune(store: Store) -> None:
    await store.prune(after(days=-2), NOON)


@pytest.mark.parametrize(
    ("change", "outdated"),
    [(add_result, 1), (add_and_judge, 1), (add_judge_and_mark, 450), (prune, 450)],
)
async def test_a_test_that_changes_while_it_is_computed_is_computed_again(
    folder: Path,
    connections: Connections,
    change: Callable[[Store], Any],
    outdated: int,
) -> None:
    # So that every computed test has rows to write.
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        connection.execute("UPDATE identities SET executions_count = 99")
    _, mark = await connections.write(rebuild_derived)
    with closing(connect(folder / FILE, 1, sqlite3.Connection)) as reader:
        reader.execute("PRAGMA query_only = ON")
        tests = [row[0] for row in reader.execute("SELECT test FROM stale_tests")]
        computed = compute_changed_rows(reader, tests, NOON)
    store = await open_store(folder)
    await change(store)
    written = await connections.write(partial(write_computed, computed=computed, mark=mark))
    assert written == max(len(computed) - outdated, 0)
    await store.refresh_tests(NOON)
    state = dump(folder)
    await store.rebuild(NOON)
    await store.close()
    assert dump(folder) == state


@pytest.mark.usefixtures("many_processes")
@pytest.mark.parametrize("cannot_start", [False, True])
async def test_a_rebuild_does_the_work_of_processes_that_die(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cannot_start: bool
) -> None:
    def start(*_: object) -> subprocess.Popen[bytes]:
        if cannot_start:
            raise rebuilding.ProcessDiedError("cannot start")
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(rebuilding, "_start", start)
    whole = dump(folder)
    await rebuild(folder)
    assert dump(folder) == whole


@pytest.mark.usefixtures("many_processes")
async def test_a_rebuild_that_fails_ends_its_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = rebuilding._start

    def note(*arguments: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments))
        return started[-1]

    def fail(*_: Any, **__: Any) -> int:
        raise StoreUnavailableError("the disk is full")

    monkeypatch.setattr(rebuilding, "_start", note)
    monkeypatch.setattr(rebuilding, "write_computed", fail)
    store = await open_store(folder)
    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        await store.rebuild(NOON)
    await store.close()
    assert len(started) == 3
    assert all(process.returncode is not None for process in started)


def test_a_process_ends_with_the_one_that_started_it(folder: Path) -> None:
    code = (
        "import os, socket, sys\n"
        "from datetime import UTC, datetime\n"
        "from pathlib import Path\n"
        "from indexing.store.sqlite.rebuilding import _start\n"
        "ours, theirs = socket.socketpair()\n"
        "process = _start(Path(sys.argv[1]), datetime.now(UTC), theirs.fileno())\n"
        "print(process.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    reading, writing = os.pipe()
    # The pipe ends with the last process that has it.
    with os.fdopen(reading, "rb") as pipe:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder / FILE)],
            stdout=writing,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        os.close(writing)
        assert process.wait() == 0
        assert pipe.readline().strip().isdigit()
        assert pipe.read() == b""


def test_rows_of_tests_are_added_up() -> None:
    both, first, second = RefreshedRows(), RefreshedRows(), RefreshedRows()
    first.days.append((1,))
    second.days.append((2,))
    first.updates["tests", ("a",)].append((1, 1))
    second.updates["tests", ("a",)].append((2, 2))
    both.add(first)
    both.add(second)
    assert both.days == [(1,), (2,)]
    assert both.updates == {("tests", ("a",)): [(1, 1), (2, 2)]}
