"""What a refresh reads of a test whose jobs it is not judged by."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from indexing.models.executions import Conclusion
from indexing.store import STORE_FILE
from indexing.store.sqlite.stored_tests import read_stored_tests
from tests.builders import WIDGETS, after, make_executions, make_run
from tests.new_stores import open_new_store

LIMIT = 5


@pytest.mark.parametrize("branch", ["main", "topic"])
async def test_jobs_that_do_not_count_are_read_only_to_compute_the_test(
    branch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexing.health.judged_jobs.JUDGED_JOBS", LIMIT)
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    for number in range(20):
        run = make_run(str(number), job=f"job-{number}", branch=branch)
        executions = make_executions(run, [("hinge", Conclusion.PASSED)], after(hours=number))
        await store.write_results(WIDGETS, {run: executions})
        await store.refresh_tests(after(days=1))
    await store.close()
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as connection:
        ((test,),) = connection.execute("SELECT id FROM tests").fetchall()
        (stored,) = read_stored_tests(connection, [test])
        assert len(stored.identities) == (LIMIT if branch == "main" else 0)
        (whole,) = read_stored_tests(connection, [test], [test])
        assert len(whole.identities) == 20
