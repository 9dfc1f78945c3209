"""Computes the metrics of identities that an earlier release stored without them."""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.health.rules import judge_rollups
from indexing.store.sqlite.meta import read_number, remove_value, write_number
from indexing.store.sqlite.metrics import METRICS_COLUMNS, store_metrics
from indexing.store.sqlite.observations import StoredRuns
from indexing.store.sqlite.refreshed_rows import RefreshedRows
from indexing.store.sqlite.rollups import update_rollups
from indexing.store.sqlite.stored_tests import read_stored_tests

# The row of `meta` with the last test that was filled; it is deleted once all are.
_FILLED_UNTIL: Final = "metrics_filled_until"
# An earlier release already stored `executions_count`; it stays until the test is refreshed.
_NEW_COLUMNS: Final = tuple(name for name in METRICS_COLUMNS if name != "executions_count")


def is_filled(connection: sqlite3.Connection) -> bool:
    return read_number(connection, _FILLED_UNTIL) is None


def fill_some(connection: sqlite3.Connection, limit: int) -> int:
    """Fill the rows of the next `limit` tests; return their number, 0 once all are filled."""
    until = read_number(connection, _FILLED_UNTIL)
    if until is None:
        return 0
    tests = connection.execute(
        "SELECT DISTINCT i.test, r.flaky_detection FROM identities i"
        " JOIN repositories r ON r.id = i.repository_id"
        " WHERE i.test > ? AND i.executions_count IS NOT NULL ORDER BY i.test LIMIT ?",
        (until, limit),
    ).fetchall()
    rows = RefreshedRows()
    runs = StoredRuns(connection)
    for test, flaky_detection in tests:
        (stored,) = read_stored_tests(connection, [test], [test])
        # A store of an early release had no roll-ups; its tests wait to be computed.
        has_all = all(each.state is not None for each in stored.identities)
        rollups = update_rollups(connection, stored, runs, recompute=not has_all)
        metrics = judge_rollups(rollups.by_job, (), flaky_detection=bool(flaky_detection)).rows
        for each in rollups.identities:
            if each.row[0] is not None:
                store_metrics(each.identity, each.row, metrics.get(each.job), rows, _NEW_COLUMNS)
    rows.write(connection)
    if tests:
        write_number(connection, _FILLED_UNTIL, tests[-1][0])
    else:
        remove_value(connection, _FILLED_UNTIL)
    return len(tests)
