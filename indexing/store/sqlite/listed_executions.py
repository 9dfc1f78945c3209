"""Lists the executions of one test, newest first."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence
from typing import Any, Final

from indexing.models.listed_executions import ExecutionKey, ExecutionQuery, ListedExecution
from indexing.models.paging import Anchor, Page
from indexing.store.sqlite.clauses import any_of, json_array
from indexing.store.sqlite.columns import CONCLUSION_NUMBERS, CONCLUSIONS, NO_PULL_NUMBER, NO_URL
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.tests import find_test
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
    """Read one page in two statements, however many identities the test has.

    Each statement reads the index once for each identity. The cost grows with the identities, the
    rows of the page, and the rows that the filters drop: the index contains no commits.
    """
    test = find_test(connection, query.repository, query.test_id)
    if test is None:
        return None
    identities = _find_identities(connection, test, query.pipelines, query.jobs)

    def fetch(rows: Slice) -> list[ListedExecution]:
        found = _read(connection, query, identities, rows)
        return [row_of(row) for row in found]

    return read_page(
        fetch,
        _ORDER,
        anchor=anchor,
        key_of=lambda key: (to_microseconds(key.finished_at), key.id),
        ascending=False,
        limit=limit,
    )


def _find_identities(
    connection: sqlite3.Connection, test: int, pipelines: Sequence[str], jobs: Sequence[str]
) -> list[int]:
    """Return the row ids of the test's identities in these pipelines and jobs; empty means all."""
    text, values = any_of({"pipeline_name": pipelines, "job_name": jobs})
    rows = connection.execute(f"SELECT id FROM identities WHERE test = ?{text}", (test, *values))
    return [row[0] for row in rows]


def _read(
    connection: sqlite3.Connection, query: ExecutionQuery, identities: Sequence[int], rows: Slice
) -> list[tuple[Any, ...]]:
    """Read the first rows of all identities together.

    If the identities are sorted by their first row, no other rows than those of the first `limit`
    identities can be on a page of that many rows, and none after the first row of the last one.
    """
    firsts = _read_firsts(connection, query, identities, rows)
    last = firsts[-1][1:] if len(firsts) == rows.limit else None
    inner, values = _select(query, rows, last)
    sql = (
        f"SELECT {COLUMNS} FROM json_each(?) j CROSS JOIN executions e ON e.id IN ({inner} LIMIT ?)"
        " CROSS JOIN runs r ON r.id = e.run CROSS JOIN branches b ON b.id = e.branch"
        f" {_order_of(rows)} LIMIT ?"
    )
    given = json_array([identity for identity, *_ in firsts])
    return connection.execute(sql, (given, *values, rows.limit, rows.limit)).fetchall()


def _read_firsts(
    connection: sqlite3.Connection, query: ExecutionQuery, identities: Sequence[int], rows: Slice
) -> list[tuple[int, int, bytes]]:
    """Return the identities that come first, each with the key of its first row."""
    inner, values = _select(query, rows, None)
    return connection.execute(
        "SELECT j.value, e.finished_at, e.execution_id"
        f" FROM json_each(?) j CROSS JOIN executions e ON e.id = ({inner} LIMIT 1)"
        f" {_order_of(rows)} LIMIT ?",
        (json_array(identities), *values, rows.limit),
    ).fetchall()


def _select(
    query: ExecutionQuery, rows: Slice, last: Sequence[Any] | None
) -> tuple[str, list[Any]]:
    """Build the SELECT of the rows of the identity `j.value`, in order, up to the key `last`."""
    filters, values = any_of(
        {
            "b.name": query.branches,
            "r.commit_sha": query.commits,
            "e.conclusion": [CONCLUSION_NUMBERS[each] for each in query.conclusions],
        }
    )
    bounds, ends = _bounds(query, rows, last)
    joins = " CROSS JOIN runs r ON r.id = e.run" if query.commits else ""
    joins += " CROSS JOIN branches b ON b.id = e.branch" if query.branches else ""
    text = (
        f"SELECT e.id FROM executions e INDEXED BY executions_of_identity{joins}"
        f" WHERE e.identity = j.value{bounds} AND {rows.condition}{filters} {rows.order}"
    )
    return text, [*ends, *rows.parameters, *values]


def _order_of(rows: Slice) -> str:
    direction = "" if rows.ascending else " DESC"
    return f"ORDER BY e.finished_at{direction}, e.execution_id{direction}"


def _bounds(
    query: ExecutionQuery, rows: Slice, last: Sequence[Any] | None
) -> tuple[str, list[Any]]:
    """Build the bounds of the time range, except at the ends that a key bounds.

    SQLite uses one bound at each end of an index, and a key is the nearer one.
    """
    text = ""
    ends: list[Any] = []
    if last is not None:
        sign = "<=" if rows.ascending else ">="
        text += f" AND (finished_at, execution_id) {sign} (?, ?)"
        ends += last
    if _is_open(rows, last, ascending=True):
        text += " AND finished_at >= ?"
        ends.append(to_microseconds(query.start))
    if _is_open(rows, last, ascending=False):
        text += " AND finished_at < ?"
        ends.append(to_microseconds(query.end))
    return text, ends


def _is_open(rows: Slice, last: Sequence[Any] | None, *, ascending: bool) -> bool:
    """Return whether no key bounds the end where reading in this direction begins."""
    return (rows.key if rows.ascending is ascending else last) is None


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
