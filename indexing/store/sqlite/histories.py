"""The histories of tests: as text beside each test, and as rows of its changes, which lists read.

Both are written in one transaction, and only what differs.
"""

from __future__ import annotations

import sqlite3
from typing import Final

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


def read_stored_history(connection: sqlite3.Connection, test: int) -> History:
    """Return the history of a test; that of its daily rows if an earlier release stored it."""
    (text,) = connection.execute("SELECT history FROM tests WHERE id = ?", (test,)).fetchone()
    if text is not None:
        return read_history(text)
    days: dict[Job, list[DailyRollup]] = {}
    for pipeline, job, *columns in connection.execute(
        f"SELECT i.pipeline_name, i.job_name, {_COLUMNS} FROM identities i"
        " JOIN daily_rollups d ON d.identity = i.id WHERE i.test = ? ORDER BY d.identity, d.day",
        (test,),
    ):
        days.setdefault((pipeline, job), []).append(DailyRollup(*columns))
    return build_history(History(), days, _NEVER)


def store_history(connection: sqlite3.Connection, test: int, history: History) -> None:
    """Store the history of a test, and the rows that differ."""
    text, repository = connection.execute(
        "SELECT history, repository_id FROM tests WHERE id = ?", (test,)
    ).fetchone()
    new = write_history(history)
    if text == new:
        return
    connection.execute("UPDATE tests SET history = ? WHERE id = ?", (new, test))
    before = set() if text is None else set(read_history(text).rows())
    after = set(history.rows())
    identities: dict[Job | None, tuple[int, bytes | None]] = {None: (WHOLE_TEST, None)}
    for identity, identity_id, pipeline, job in connection.execute(
        "SELECT id, identity_id, pipeline_name, job_name FROM identities WHERE test = ?", (test,)
    ):
        identities[pipeline, job] = (identity, identity_id)

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
