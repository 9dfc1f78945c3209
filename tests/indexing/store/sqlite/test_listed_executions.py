"""What the list of executions costs in SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.listed_executions import ExecutionQuery
from indexing.models.paging import Anchor
from indexing.store.sqlite import listed_executions
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.new_stores import open_new_store

QUERY = ExecutionQuery(
    WIDGETS, derive_test_id(WIDGETS, "hinge"), NOON - timedelta(days=1), NOON + timedelta(days=1)
)


async def load_jobs(folder: Path, jobs: int) -> None:
    store = await open_new_store(folder)
    await store.ensure_repository(WIDGETS)
    runs = {make_run(str(job), job=f"job-{job}"): after(seconds=job) for job in range(jobs)}
    await store.write_results(
        WIDGETS,
        {
            run: make_executions(run, [("hinge", Conclusion.PASSED)], finished_at)
            for run, finished_at in runs.items()
        },
    )
    await store.close()


@pytest.mark.parametrize("backward", [False, True])
async def test_a_page_takes_as_many_statements_in_a_thousand_jobs_as_in_ten(
    tmp_path: Path, *, backward: bool
) -> None:
    counts = []
    for jobs in (10, 1_000):
        folder = tmp_path / str(jobs)
        await load_jobs(folder, jobs)
        (database,) = folder.glob("*.db")
        with closing(sqlite3.connect(database)) as connection:
            first = listed_executions.list_executions(connection, QUERY, Anchor(), 5)
            assert first is not None
            assert [row.job_name for row in first.rows] == [f"job-{jobs - n}" for n in range(1, 6)]
            # A page from the middle, which also looks for a row on the other side of its key.
            anchor = Anchor(first.rows[3].key, backward=backward)
            statements: list[str] = []
            connection.set_trace_callback(statements.append)
            page = listed_executions.list_executions(connection, QUERY, anchor, 3)
            assert page is not None
            assert len(page.rows) == 3
            counts.append(len(statements))
    assert counts[0] == counts[1]
