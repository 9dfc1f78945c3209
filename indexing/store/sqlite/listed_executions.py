"""Lists the executions of one test, newest first."""

from __future__ import annotations

import heapq
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from indexing.models.listed_executions import ExecutionKey, ExecutionQuery, ListedExecution
from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from indexing.store.sqlite.columns import CONCLUSION_NUMBERS, CONCLUSIONS, NO_PULL_NUMBER, NO_URL
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.timestamps import from_microseconds, to_microseconds

_ORDER: Final = ("finished_at", "execution_id")
COLUMNS: Final = (
    "e.finished_at, e.execution_id, e.conclusion, e.needed_retries, e.duration, b.name,"
    " r.commit_sha, r.pipeline_name, r.job_name, r.run_id, r.attempt, r.pull_number, r.job_url,"
    " e.failure_id"
)


def list_executions(
    connection: sqlite3.Connection,
    query: ExecutionQuery,
    anchor: Anchor[ExecutionKey],
    limit: int,
) -> Page[ListedExecution] | None:
    """Read one page, merged from one index read for each identity of the test.

    The cost grows with the identities, the rows of the page, and the rows that the filters drop:
    the index contains neither branches nor commits.
    """
    test = find_test(connection, query.repository, query.test_id)
    if test is None:
        return None
    identities = find_identities(connection, test, query.pipelines, query.jobs)

    def fetch(rows: Slice) -> list[ListedExecution]:
        found = heapq.merge(
            *(_read(connection, query, identity, rows) for identity in identities),
            key=lambda row: row[:2],
            reverse=not rows.ascending,
        )
        return [row_of(row) for row in islice(found, rows.limit)]

    return read_page(
        fetch,
        _ORDER,
        anchor=anchor,
        key_of=lambda key: (to_microseconds(key.finished_at), key.id),
        ascending=False,
        limit=limit,
    )


def find_test(
    connection: sqlite3.Connection, repository: RepositoryName, test_id: uuid.UUID
) -> int | None:
    """Return the row id of a test; `None` if the repository has no such test."""
    row = connection.execute(
        "SELECT t.id FROM tests t JOIN repositories r ON r.id = t.repository_id"
        " WHERE t.test_id = ? AND r.key = ?",
        (test_id.bytes, repository.key),
    ).fetchone()
    return None if row is None else row[0]


def find_identities(
    connection: sqlite3.Connection,
    test: int,
    pipelines: Sequence[str] = (),
    jobs: Sequence[str] = (),
) -> list[int]:
    """Return the row ids of the test's identities in these pipelines and jobs; empty means all."""
    text, values = any_of({"pipeline_name": pipelines, "job_name": jobs})
    rows = connection.execute(f"SELECT id FROM identities WHERE test = ?{text}", (test, *values))
    return [row[0] for row in rows]


def any_of(columns: dict[str, Sequence[Any]]) -> tuple[str, list[Any]]:
    """Build the condition that each column has one of its values; without values, any will do."""
    text = ""
    given: list[Any] = []
    for column, values in columns.items():
        if values:
            text += f" AND {column} IN ({', '.join('?' * len(values))})"
            given += values
    return text, given


def _read(
    connection: sqlite3.Connection, query: ExecutionQuery, identity: int, rows: Slice
) -> Iterator[tuple[Any, ...]]:
    filters, values = any_of(
        {
            "b.name": query.branches,
            "r.commit_sha": query.commits,
            "e.conclusion": [CONCLUSION_NUMBERS[each] for each in query.conclusions],
        }
    )
    bounds, ends = _bounds(query, rows)
    # A database cursor for each identity; the merge reads from each no further than needed.
    return iter(
        connection.execute(
            f"SELECT {COLUMNS} FROM executions e INDEXED BY executions_of_identity"
            " CROSS JOIN runs r ON r.id = e.run CROSS JOIN branches b ON b.id = e.branch"
            f" WHERE e.identity = ?{bounds} AND {rows.condition}{filters} {rows.order}",
            (identity, *ends, *rows.parameters, *values),
        )
    )


def _bounds(query: ExecutionQuery, rows: Slice) -> tuple[str, list[int]]:
    """Build the bounds of the time range, except at the end that the key bounds.

    SQLite uses one bound at each end of an index, and the key is the nearer one.
    """
    text, ends = "", []
    if rows.key is None or not rows.ascending:
        text += " AND finished_at >= ?"
        ends.append(to_microseconds(query.start))
    if rows.key is None or rows.ascending:
        text += " AND finished_at < ?"
        ends.append(to_microseconds(query.end))
    return text, ends


def row_of(row: Sequence[Any]) -> ListedExecution:
    """Return the execution from the values of `COLUMNS`."""
    finished_at, execution_id, conclusion, retries, duration, *about, number, url, failure = row
    branch, commit, pipeline, job, run_id, attempt = about
    return ListedExecution(
        key=ExecutionKey(from_microseconds(finished_at), execution_id),
        conclusion=CONCLUSIONS[conclusion],
        needed_retries=bool(retries),
        duration=duration,
        branch=branch,
        commit=commit,
        pipeline_name=pipeline,
        job_name=job,
        run_id=run_id,
        attempt=attempt,
        pull_number=None if number == NO_PULL_NUMBER else number,
        job_url=None if url == NO_URL else url,
        failure_id=None if failure is None else uuid.UUID(bytes=failure),
    )
