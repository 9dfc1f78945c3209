"""Marks tests as stale, so that `refresh_tests` judges them again.

`recompute` says how: 0 if a merge of the new executions is enough, 1 from all executions. `LATER`
is like 1, but loads leave the test to the rebuild or prune that marked it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

LATER: Final = 2


def mark_for_merge(
    connection: sqlite3.Connection, repository_id: int, tests: Iterable[int]
) -> None:
    """Mark tests of a repository with new executions.

    One that is stale already keeps its value, unless a load would leave it for later.
    """
    connection.executemany(
        "INSERT INTO stale_tests (test, repository_id, recompute) VALUES (?, ?, 0)"
        f" ON CONFLICT DO UPDATE SET recompute = 1 WHERE recompute = {LATER}",
        [(test, repository_id) for test in tests],
    )


def mark_stale(connection: sqlite3.Connection, tests: Iterable[int]) -> None:
    """Mark tests, by their row ids, to be computed from all executions."""
    given = orjson.dumps([*tests]).decode()
    mark_found(connection, "SELECT value FROM json_each(?)", (given,))


def mark_found(
    connection: sqlite3.Connection,
    tests: str,
    parameters: Sequence[Any] = (),
    *,
    later: bool = False,
) -> None:
    """Mark the tests whose row ids this query finds, to be computed from all executions.

    With `later`, loads leave them to the caller; but not those that are stale already.
    """
    connection.execute(
        "INSERT INTO stale_tests (test, repository_id, recompute)"
        f" SELECT id, repository_id, {LATER if later else 1} FROM tests WHERE id IN ({tests})"
        " ON CONFLICT DO UPDATE SET recompute = min(excluded.recompute, max(1, recompute))",
        parameters,
    )
