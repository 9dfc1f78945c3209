"""How the names of new tests are written to the n-gram indexes."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from indexing.models.executions import Conclusion
from indexing.store.sqlite.executions import write_results
from indexing.store.sqlite.repositories import ensure_repository
from indexing.store.sqlite.schema import ensure_schema
from tests.builders import WIDGETS, make_executions, make_run


@pytest.mark.parametrize(
    "segments",
    ["SELECT DISTINCT segid FROM test_trigrams_idx", "SELECT DISTINCT segid FROM test_bigrams_idx"],
)
def test_all_names_of_a_transaction_are_written_in_one_segment(
    tmp_path: Path, segments: str
) -> None:
    run = make_run("1")
    results = [(f"test_{number}", Conclusion.PASSED) for number in range(40)]
    opened = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    with contextlib.closing(opened) as connection:
        ensure_schema(connection)
        ensure_repository(connection, WIDGETS)
        connection.execute("BEGIN")
        write_results(connection, WIDGETS, {run: make_executions(run, results)})
        connection.execute("COMMIT")
        assert len(connection.execute(segments).fetchall()) == 1
