"""Groups the failed executions of one test into failures.

An index contains everything that grouping and sorting need, so the executions themselves are read
only for the rows of a page.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence
from typing import Any, Final

from indexing.models.failures import (
    Failure,
    FailureDetail,
    FailureEvent,
    FailureKey,
    FailureQuery,
)
from indexing.models.paging import Anchor, Page
from indexing.store.sqlite.clauses import any_of
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.listed_executions import COLUMNS, row_of
from indexing.store.sqlite.tests import find_test
from indexing.timestamps import from_microseconds, to_microseconds

_ORDER: Final = ("last_failure_at", "failure_id")
_GROUPS: Final = (
    "SELECT failure_id, count(*) failure_count, min(finished_at) first_failure_at,"
    " max(finished_at) last_failure_at FROM executions INDEXED BY executions_by_failure"
)


def list_failures(
    connection: sqlite3.Connection, query: FailureQuery, anchor: Anchor[FailureKey], limit: int
) -> Page[Failure] | None:
    """Read one page; the cost grows with the failed executions of the test, not with the page."""
    test = find_test(connection, query.repository, query.test_id)
    if test is None:
        return None
    where, values = _conditions(query, test)

    def fetch(rows: Slice) -> list[Failure]:
        found = connection.execute(
            f"SELECT * FROM ({_GROUPS}{where} GROUP BY failure_id)"
            f" WHERE {rows.condition} {rows.limited_order}",
            (*values, *rows.parameters),
        ).fetchall()
        return [_failure_of(connection, query, test, row) for row in found]

    return read_page(
        fetch,
        _ORDER,
        anchor=anchor,
        key_of=lambda key: (to_microseconds(key.last_failure_at), key.id.bytes),
        ascending=False,
        limit=limit,
    )


def get_failure(
    connection: sqlite3.Connection, query: FailureQuery, failure_id: uuid.UUID, events: int
) -> FailureDetail | None:
    test = find_test(connection, query.repository, query.test_id)
    if test is None:
        return None
    where, values = _conditions(query, test)
    row = connection.execute(
        f"{_GROUPS}{where} AND failure_id = ? GROUP BY failure_id", (*values, failure_id.bytes)
    ).fetchone()
    if row is None:
        return None
    return FailureDetail(
        _failure_of(connection, query, test, row),
        tuple(
            FailureEvent(row_of(columns), message, trace)
            for *columns, _, message, trace in _newest(
                connection, query, test, failure_id.bytes, events
            )
        ),
    )


def _conditions(query: FailureQuery, test: int) -> tuple[str, list[Any]]:
    text, values = any_of({"name": query.branches})
    where = (
        " WHERE failure_id IS NOT NULL AND identity IN (SELECT id FROM identities WHERE test = ?)"
    )
    if not values:
        return where, [test]
    named = (
        " AND branch IN (SELECT b.id FROM branches b JOIN tests t"
        f" ON t.repository_id = b.repository_id WHERE t.id = ?{text})"
    )
    return where + named, [test, test, *values]


def _failure_of(
    connection: sqlite3.Connection, query: FailureQuery, test: int, row: Sequence[Any]
) -> Failure:
    failure_id, count, first_at, last_at = row
    ((*_, exception_type, message, _),) = _newest(connection, query, test, failure_id, 1)
    return Failure(
        key=FailureKey(from_microseconds(last_at), uuid.UUID(bytes=failure_id)),
        exception_type=exception_type,
        exception_message=message,
        failure_count=count,
        first_failure_at=from_microseconds(first_at),
    )


def _newest(
    connection: sqlite3.Connection, query: FailureQuery, test: int, failure_id: bytes, limit: int
) -> list[tuple[Any, ...]]:
    """Return the newest executions with this failure."""
    where, values = _conditions(query, test)
    order = "ORDER BY finished_at DESC, execution_id DESC"
    return connection.execute(
        f"SELECT {COLUMNS}, e.failure_type, e.failure_message, t.trace FROM executions e"
        " JOIN runs r ON r.id = e.run JOIN branches b ON b.id = e.branch"
        " LEFT JOIN failure_traces t ON t.execution = e.id WHERE e.id IN (SELECT id"
        f" FROM executions INDEXED BY executions_by_failure{where} AND failure_id = ?"
        f" {order} LIMIT ?) {order}",
        (*values, failure_id, limit),
    ).fetchall()
