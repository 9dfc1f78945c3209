"""A rebuild whose tests are computed by several processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
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
from indexing.store.sqlite.maintenance import mark_all
from indexing.store.sqlite.refresh import compute_changed_rows, write_computed
from indexing.store.sqlite.refreshed_rows import RefreshedRows
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.sqlite.derived_data import dump
from tests.new_stores import open_new_store

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
    store = await open_new_store(folder)
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

    def count(connection: sqlite3.Connection, **rest: Any) -> tuple[int, int]:
        nonlocal written
        done, fresh = write_computed(connection, **rest)
        written += fresh
        return done, fresh

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
    await store._connections.write(mark_all)  # type: ignore[attr-defined]


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
    _, mark = await connections.write(mark_all)
    with closing(connect(folder / FILE, 1, sqlite3.Connection)) as reader:
        reader.execute("PRAGMA query_only = ON")
        tests = [row[0] for row in reader.execute("SELECT test FROM stale_tests")]
        computed = compute_changed_rows(reader, tests, mark, NOON)
    store = await open_store(folder)
    await change(store)
    write = partial(write_computed, computed=computed, mark=mark, seconds=60)
    done, written = await connections.write(write)
    assert (done, written) == (len(computed), max(len(computed) - outdated, 0))
    await store.refresh_tests(NOON)
    state = dump(folder)
    await store.rebuild(NOON)
    await store.close()
    assert dump(folder) == state


async def test_the_mark_of_a_prune_of_the_earlier_release_is_another_one(
    connections: Connections,
) -> None:
    _, mark = await connections.write(mark_all)
    prune = "UPDATE stale_tests SET recompute = min(2, max(1, recompute))"
    await connections.write(lambda connection: connection.execute(prune).rowcount)
    tests = [(number, RefreshedRows()) for number in range(1, len(NAMES) + 1)]
    write = partial(write_computed, computed=tests, mark=mark, seconds=60)
    assert await connections.write(write) == (len(NAMES), 0)


async def test_computed_tests_are_written_in_short_transactions(connections: Connections) -> None:
    _, mark = await connections.write(mark_all)
    tests = [(number, RefreshedRows()) for number in range(1, len(NAMES) + 1)]
    written = []
    while tests:
        write = partial(write_computed, computed=tests, mark=mark, seconds=0)
        done, fresh = await connections.write(write)
        tests = tests[done:]
        written.append(fresh)
    assert len(written) > 20
    assert sum(written) == len(NAMES)
    assert max(written) <= 20


async def test_a_process_leaves_out_tests_that_have_another_mark_or_are_gone(
    folder: Path, connections: Connections
) -> None:
    _, mark = await connections.write(mark_all)
    change = "UPDATE stale_tests SET recompute = 1 WHERE test = 2"
    await connections.write(lambda connection: connection.execute(change).rowcount)
    with closing(connect(folder / FILE, 1, sqlite3.Connection)) as reader:
        reader.execute("PRAGMA query_only = ON")
        computed = compute_changed_rows(reader, [2, 3, 10**6], mark, NOON)
    assert [test for test, _ in computed] == [3]


@pytest.mark.usefixtures("many_processes")
async def test_a_rebuild_ends_though_every_test_changes_while_it_is_computed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rebuild(folder)
    state = dump(folder)
    compute = rebuilding._Process.compute

    async def change(process: rebuilding._Process, tests: Sequence[int], mark: int) -> Any:
        computed = await compute(process, tests, mark)
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
            connection.execute("UPDATE stale_tests SET recompute = recompute + 1")
        return computed

    monkeypatch.setattr(rebuilding._Process, "compute", change)
    async with asyncio.timeout(60):
        await rebuild(folder)
    assert dump(folder) == state


@pytest.mark.usefixtures("many_processes")
async def test_many_rows_are_written_while_no_process_reads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        connection.execute("UPDATE rollups SET state = CAST('[2]' AS BLOB)")
    compute, reading, writes = rebuilding._Process.compute, 0, 0

    async def count(process: rebuilding._Process, tests: Sequence[int], mark: int) -> Any:
        nonlocal reading
        reading += 1
        try:
            return await compute(process, tests, mark)
        finally:
            reading -= 1

    def look(connection: sqlite3.Connection, **rest: Any) -> tuple[int, int]:
        nonlocal writes
        writes += 1
        assert reading == 0
        return write_computed(connection, **rest)

    monkeypatch.setattr(rebuilding._Process, "compute", count)
    monkeypatch.setattr(rebuilding, "write_computed", look)
    monkeypatch.setattr(rebuilding, "_TESTS_A_STEP", 30)
    monkeypatch.setattr(rebuilding, "_ROWS_BETWEEN_PAUSES", 1)
    await rebuild(folder)
    assert writes >= len(NAMES) / 30


def test_a_process_takes_no_modules_from_the_current_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "elsewhere"
    planted.mkdir()
    (planted / "pickle.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(planted)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = rebuilding._start(folder / FILE, NOON, theirs.fileno())
        theirs.close()
        ours.sendall(pickle.dumps(([], 1)))
        with ours.makefile("rb") as answers:
            assert pickle.load(answers) == []  # noqa: S301 - of our own process
        ours.shutdown(socket.SHUT_RDWR)
        assert process.wait() == 0


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
