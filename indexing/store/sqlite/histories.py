"""The histories of tests: as text beside each test, and as rows of its changes, which lists read.

Both are written in one transaction, and only what differs.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from indexing.health.history import (
    History,
    Job,
    Row,
    build_history,
    read_history,
    write_history,
)
from indexing.health.rollups import DailyRollup

# The place of an identity in rows about the test as a whole; row ids begin at 1.
WHOLE_TEST: Final = 0
# Before every day that a store can hold.
_NEVER: Final = -(2**40)

_COLUMNS: Final = ", ".join(f"d.{name}" for name in DailyRollup._fields)


class StoredHistory(NamedTuple):
    """The history of a test, and its text; without a text, rows of it were never written."""

    text: bytes | None
    history: History


def read_stored_history(
    connection: sqlite3.Connection, test: int, *, has_days: bool
) -> StoredHistory:
    """Return the history of a test; that of its daily rows if an earlier release stored it.

    A new test has no daily rows.
    """
    (text,) = connection.execute("SELECT history FROM tests WHERE id = ?", (test,)).fetchone()
    if text is not None:
        return StoredHistory(text, read_history(text))
    if not has_days:
        return StoredHistory(None, History())
    days: dict[Job, list[DailyRollup]] = {}
    for pipeline, job, *columns in connection.execute(
        f"SELECT i.pipeline_name, i.job_name, {_COLUMNS} FROM identities i"
        " JOIN daily_rollups d ON d.identity = i.id WHERE i.test = ? ORDER BY d.identity, d.day",
        (test,),
    ):
        days.setdefault((pipeline, job), []).append(DailyRollup(*columns))
    return StoredHistory(None, build_history(History(), days, _NEVER))


def store_history(
    connection: sqlite3.Connection, test: int, stored: StoredHistory, history: History
) -> None:
    """Store the history of a test, and the rows that differ."""
    new = write_history(history)
    if stored.text == new:
        return
    connection.execute("UPDATE tests SET history = ? WHERE id = ?", (new, test))
    before = set() if stored.text is None else set(stored.history.rows())
    after = set(history.rows())
    repository: int | None = None
    identities: dict[Job | None, tuple[int, bytes | None]] = {None: (WHOLE_TEST, None)}
    for identity, identity_id, pipeline, job, repository_id in connection.execute(
        "SELECT id, identity_id, pipeline_name, job_name, repository_id FROM identities"
        " WHERE test = ?",
        (test,),
    ):
        identities[pipeline, job] = (identity, identity_id)
        repository = repository_id

    def place_of(row: Row) -> int:
        return identities[row.job][0]

    for row in before - after:
        table = "flaky_days" if row.health is None else "health_changes"
        connection.execute(
            f"DELETE FROM {table} WHERE test = ? AND identity = ? AND day = ?",
            (test, place_of(row), row.day),
        )
    for row in after - before:
        if row.health is None:
            connection.execute(
                "INSERT INTO flaky_days (test, identity, day, repository_id, verdicts)"
                " VALUES (?, ?, ?, ?, ?)",
                (test, place_of(row), row.day, repository, row.verdicts),
            )
        else:
            connection.execute(
                "INSERT INTO health_changes (test, identity, day, repository_id, at, previous,"
                " health, identity_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    test,
                    place_of(row),
                    row.day,
                    repository,
                    row.at,
                    row.previous,
                    row.health,
                    identities[row.job][1],
                ),
            )


def forget_history(connection: sqlite3.Connection, test: int) -> None:
    """Delete the rows of a test that is about to be deleted."""
    for table in ("health_changes", "flaky_days"):
        connection.execute(f"DELETE FROM {table} WHERE test = ?", (test,))
