"""The upgrade that copies all executions (version 18): what it keeps, and what it needs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from indexing.store import open_store
from indexing.store.sqlite.schema import ensure_schema
from tests.full_disk import limit_of_files
from tests.indexing.store.sqlite.versions import Sample, dump_of, load_sample, version_of
from tests.service.processes import TIMEOUT

ROOT = Path(__file__).parents[4]
# Sorts 60 MB for an index, and prints by how many bytes the peak of the memory grew.
SORTING = """
import sqlite3, sys
from pathlib import Path
from indexing.store.sqlite.connections import connect
from indexing.store.sqlite.schema import ensure_schema

def peak():
    # That of `getrusage` includes the process that started this one.
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

def migrate(connection):
    connection.execute("PRAGMA cache_size = -2000")
    connection.execute("CREATE TABLE rows (value BLOB)")
    connection.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)"
        " INSERT INTO rows SELECT randomblob(300) FROM n"
    )
    before = peak()
    connection.execute("CREATE INDEX sorted ON rows (value)")
    print(peak() - before)

ensure_schema(connect(Path(sys.argv[1]), 10, sqlite3.Connection), [migrate])
"""


@pytest.fixture
def sample() -> Sample:
    """A store of the version before."""
    return load_sample(17)


def read_all(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


async def upgrade(path: Path) -> None:
    await (await open_store(path.parent)).close()


async def test_executions_keep_their_rows_their_jobs_and_their_traces(
    sample: Sample, tmp_path: Path
) -> None:
    path = sample.unpack(tmp_path)
    executions = (
        "SELECT e.id, hex(e.execution_id), e.identity, e.run, e.branch, e.conclusion,"
        " e.finished_at, e.failure_message, t.trace FROM executions e"
        " LEFT JOIN failure_traces t ON t.execution = e.id ORDER BY e.id"
    )
    before = read_all(path, executions)
    assert any(trace for *_, trace in before)
    await upgrade(path)
    assert read_all(path, executions) == before
    wrong = (
        "SELECT e.id FROM executions e JOIN runs r ON r.id = e.run JOIN job_runs j ON"
        " j.id = e.job_run WHERE (j.run_id, j.attempt, j.pipeline_name, j.job_name)"
        " <> (r.run_id, r.attempt, r.pipeline_name, r.job_name)"
    )
    assert read_all(path, wrong) == []
    assert read_all(path, "PRAGMA integrity_check") == [("ok",)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM unmerged")
        connection.execute("DELETE FROM executions")
        assert connection.execute("SELECT count(*) FROM failure_traces").fetchone() == (0,)


async def test_jobs_without_a_row_are_counted(sample: Sample, tmp_path: Path) -> None:
    jobs = (
        "SELECT run_id, attempt, pipeline_name, job_name, passed, failed, infrastructure_failure"
        " FROM job_runs ORDER BY 1, 2, 3, 4"
    )
    path = sample.unpack(tmp_path)
    before = read_all(path, jobs)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM job_runs WHERE attempt = 2 OR run_id IN ('3', 'down')")
        connection.commit()
    assert len(read_all(path, jobs)) < len(before)
    await upgrade(path)
    assert read_all(path, jobs) == before


def test_a_full_disk_is_reported_and_changes_nothing(sample: Sample, tmp_path: Path) -> None:
    path = sample.unpack(tmp_path)
    before = dump_of(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # So that the transaction is written before it ends.
        connection.execute("PRAGMA cache_size = 10")
        with (
            limit_of_files(100_000),
            pytest.raises(sqlite3.OperationalError, match="disk"),
        ):
            ensure_schema(connection)
    assert version_of(path) == sample.version
    assert dump_of(path) == before


def test_a_new_index_is_not_sorted_in_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SORTING, tmp_path / "new.db"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert int(done.stdout) < 30_000_000
    assert [file.name for file in tmp_path.iterdir()] == ["new.db"]
