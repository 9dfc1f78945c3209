"""Counts, retention, and rebuilding the derived data of the whole store."""

from __future__ import annotations

import sqlite3
from collections import deque
from datetime import datetime
from typing import Final

from indexing.store.interface import StoreIdentity, StoreStatus
from indexing.store.sqlite.arrivals import note_given
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.events import PRUNED_BEFORE, read_pruned_before
from indexing.store.sqlite.meta import write_number
from indexing.store.sqlite.quarantine_rows import IN_FORCE
from indexing.store.sqlite.removal import delete_executions, drop_pruned
from indexing.store.sqlite.rollups import finish_days
from indexing.store.sqlite.schema import SCHEMA_VERSION, read_version
from indexing.store.sqlite.stale_tests import mark_found, new_later_mark
from indexing.timestamps import to_microseconds

_COUNTED: Final = {
    "repositories": "repositories",
    "events": "events",
    "tests": "tests",
    "identities": "identities WHERE executions_count IS NOT NULL",
    "executions": "executions",
    "stale_tests": "stale_tests",
}


def get_identity(connection: sqlite3.Connection) -> StoreIdentity:
    values = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    return StoreIdentity(values["store_id"].decode(), values["cursor_secret"])


def get_status(connection: sqlite3.Connection, now: datetime) -> StoreStatus:
    counts = {
        name: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for name, table in _COUNTED.items()
    }
    in_force = connection.execute(
        f"SELECT count(*) FROM quarantines q WHERE {IN_FORCE}", (to_microseconds(now),)
    ).fetchone()
    return StoreStatus(
        backend="sqlite",
        version=read_version(connection),
        known_version=SCHEMA_VERSION,
        quarantines=in_force[0],
        **counts,
    )


def prune_events(
    connection: sqlite3.Connection, before: datetime, repositories: deque[int], limit: int
) -> int:
    """Delete up to `limit` events before that moment; return their number.

    `repositories` are the row ids of those that have such events. One whose events are all deleted
    is removed from it.
    """
    number = to_microseconds(before)
    # Before the first deletion, so that no cursor continues from a deleted event.
    note_given(connection)
    _note_pruned(connection, number)
    dropped = 0
    while repositories and dropped < limit:
        done = connection.execute(
            "DELETE FROM events WHERE row_id IN (SELECT row_id FROM events"
            " INDEXED BY events_by_time WHERE repository_id = ? AND received_at < ? LIMIT ?)",
            (repositories[0], number, limit - dropped),
        )
        dropped += done.rowcount
        if dropped < limit:
            repositories.popleft()
    return dropped


def prune_executions(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` executions before that moment, and runs without any; return the number.

    The number is that of executions.
    """
    # With the first deletion: any refresh has to know that passed verdicts may be gone.
    _note_pruned(connection, to_microseconds(before))
    finish_days(connection, before)
    # Those that no refresh has judged yet stay until the next run.
    old = connection.execute(
        "SELECT e.id FROM executions e WHERE e.finished_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM identities i JOIN unmerged u ON u.test = i.test"
        " WHERE i.id = e.identity AND u.execution = e.id)"
        " ORDER BY e.finished_at LIMIT ?",
        (to_microseconds(before), limit),
    ).fetchall()
    executions = [row[0] for row in old]
    given = (json_array(executions),)
    tests = (
        "FROM executions e JOIN identities i ON i.id = e.identity JOIN tests t ON t.id = i.test"
        " WHERE e.id IN (SELECT value FROM json_each(?))"
    )
    mark_found(connection, f"SELECT t.id {tests}", given, later=new_later_mark(connection))
    # Retention removes the evidence of automatic quarantines, so these decisions become final. The
    # join begins with the tests: otherwise, SQLite reads all quarantines.
    connection.execute(
        "UPDATE quarantines SET judged_until = NULL WHERE id IN"
        f" (SELECT q.id FROM (SELECT DISTINCT t.test_id {tests}) found"
        " CROSS JOIN quarantines q INDEXED BY quarantines_by_scope ON q.test_id = found.test_id"
        " WHERE q.removed_at IS NULL AND q.judged_until IS NOT NULL)",
        given,
    )
    delete_executions(connection, executions, drop_pruned)
    return len(executions)


def _note_pruned(connection: sqlite3.Connection, number: int) -> None:
    """Note that rows before that time, in microseconds, may be gone."""
    known = read_pruned_before(connection)
    if known is None or known < number:
        write_number(connection, PRUNED_BEFORE, number)


def mark_all(connection: sqlite3.Connection) -> tuple[int, int]:
    """Mark every test as stale, for a rebuild.

    Returns the number of tests and their mark; those that were stale before have another one.
    """
    mark = new_later_mark(connection)
    mark_found(connection, "SELECT id FROM tests", later=mark)
    count: int = connection.execute("SELECT count(*) FROM tests").fetchone()[0]
    return count, mark
