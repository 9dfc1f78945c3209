"""Stores the health history of each test: as one text, and as rows for lists and counts.

Both are written in one transaction, and only the rows that differ.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from indexing.health.history import (
    History,
    Row,
    build_history,
    read_history,
    write_history,
)
from indexing.health.lasting_verdicts import write_lasting
from indexing.health.rollups import DailyRollup, Job

# The value of the column `identity` in rows about the test as a whole; row ids begin at 1.
WHOLE_TEST: Final = 0
# A day number before every day that a store can hold.
_NEVER: Final = -(2**40)

_COLUMNS: Final = ", ".join(f"d.{name}" for name in DailyRollup._fields)


class StoredHistory(NamedTuple):
    """The history of a test and its stored texts; without a text, no rows of it are stored.

    `lasting` is the text of its lasting verdicts, None if there are none.
    """

    text: bytes | None
    history: History
    lasting: bytes | None = None


def read_stored_history(
    connection: sqlite3.Connection, test: int, *, has_days: bool
) -> StoredHistory:
    """Return the history of a test.

    For a test of an earlier release, it is computed from the daily rows. `has_days` is false for a
    new test, which has no daily rows.
    """
    text, lasting = connection.execute(
        "SELECT history, lasting_verdicts FROM tests WHERE id = ?", (test,)
    ).fetchone()
    if text is not None:
        return StoredHistory(text, read_history(text, lasting), lasting)
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
    """Store the history of a test if it differs from the stored one, and the rows that differ."""
    new = write_history(history)
    lasting = write_lasting(history.lasting) if history.lasting else None
    if (stored.text, stored.lasting) == (new, lasting):
        return
    connection.execute(
        "UPDATE tests SET history = ?, lasting_verdicts = ? WHERE id = ?", (new, lasting, test)
    )
    if stored.text == new:
        return
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
    """Delete the history rows of a test that is about to be deleted."""
    for table in ("health_changes", "flaky_days"):
        connection.execute(f"DELETE FROM {table} WHERE test = ?", (test,))
