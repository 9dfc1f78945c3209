"""Marks tests as stale, so that `refresh_tests` judges them again.

`recompute` says how: 0 if a merge of the new executions is enough, 1 from all executions. `LATER`
and above are like 1, but loads leave the test to the rebuild or prune that marked it. Each of these
has a value of its own, so a rebuild can tell that nothing else has marked or refreshed a test since
it marked it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.meta import read_number, write_number

LATER: Final = 2
# The row of `meta` with the last value.
_LAST_LATER: Final = "last_later_mark"


def new_later_mark(connection: sqlite3.Connection) -> int:
    """Return a value of `recompute` for tests that loads leave; no test ever had it."""
    last = read_number(connection, _LAST_LATER)
    # The earlier release marks with `LATER` itself.
    mark = (LATER if last is None else last) + 1
    write_number(connection, _LAST_LATER, mark)
    return mark


def mark_for_merge(
    connection: sqlite3.Connection, repository_id: int, tests: Iterable[int]
) -> None:
    """Mark tests of a repository with new executions.

    One that is stale already keeps its value, unless a load would leave it for later.
    """
    connection.executemany(
        "INSERT INTO stale_tests (test, repository_id, recompute) VALUES (?, ?, 0)"
        f" ON CONFLICT DO UPDATE SET recompute = 1 WHERE recompute >= {LATER}",
        [(test, repository_id) for test in tests],
    )


def mark_stale(connection: sqlite3.Connection, tests: Iterable[int]) -> None:
    """Mark tests, by their row ids, to be computed from all executions."""
    mark_found(connection, "SELECT value FROM json_each(?)", (json_array(tests),))


def mark_found(
    connection: sqlite3.Connection,
    tests: str,
    parameters: Sequence[Any] = (),
    *,
    later: int | None = None,
) -> None:
    """Mark the tests whose row ids this query finds, to be computed from all executions.

    With `later`, a new mark of `new_later_mark`, loads leave them to the caller; but not those that
    are stale already.
    """
    connection.execute(
        "INSERT INTO stale_tests (test, repository_id, recompute)"
        f" SELECT id, repository_id, {1 if later is None else later} FROM tests"
        f" WHERE id IN ({tests}) ON CONFLICT DO UPDATE"
        f" SET recompute = iif(recompute < {LATER}, 1, excluded.recompute)",
        parameters,
    )
