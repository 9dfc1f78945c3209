"""Version 13: how many tests of a repository have each health, and its CODEOWNERS file.

Database triggers keep the counts, so that whatever changes the history of a test changes them in
the same transaction. Also an index for counting the tests in quarantine.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_STATES: Final = ("healthy", "flaky", "broken", "unknown")

_TABLES: Final = """
-- The text of a CODEOWNERS file.
CREATE TABLE code_owners (
    repository_id INTEGER PRIMARY KEY REFERENCES repositories (id),
    text TEXT NOT NULL
) STRICT;

-- The sums of health_changes of tests as a whole, where flaky detection is on.
CREATE TABLE health_counts (
    repository_id INTEGER PRIMARY KEY REFERENCES repositories (id),
    healthy INTEGER NOT NULL,
    flaky INTEGER NOT NULL,
    broken INTEGER NOT NULL,
    unknown INTEGER NOT NULL
) STRICT;

CREATE INDEX quarantines_of_tests ON quarantines (repository_id, test_id, expires_at)
    WHERE removed_at IS NULL;
"""


def _turned(row: str) -> list[str]:
    """Return SQL for how a change of health alters the count of each state."""
    return [f"({row}health = '{state}') - ({row}previous IS '{state}')" for state in _STATES]


def _keep_counts(connection: sqlite3.Connection) -> None:
    sums = ", ".join(f"sum({turned})" for turned in _turned(""))
    connection.execute(
        f"INSERT INTO health_counts SELECT repository_id, {sums} FROM health_changes"
        " WHERE identity = 0 GROUP BY repository_id"
    )
    for name, when, row, sign in (
        ("health_change_added", "AFTER INSERT", "new.", "+"),
        ("health_change_dropped", "AFTER DELETE", "old.", "-"),
    ):
        values = ", ".join(f"{sign}({turned})" for turned in _turned(row))
        added = ", ".join(f"{state} = {state} + excluded.{state}" for state in _STATES)
        connection.execute(
            f"CREATE TRIGGER {name} {when} ON health_changes WHEN {row}identity = 0 BEGIN"
            f" INSERT INTO health_counts VALUES ({row}repository_id, {values})"
            f" ON CONFLICT (repository_id) DO UPDATE SET {added}; END"
        )


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
    _keep_counts(connection)
