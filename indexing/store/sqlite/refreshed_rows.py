"""Collects the rows that refreshed tests change, and writes many of them with each statement."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from indexing.health.rollups import DailyRollup

_DAY_COLUMNS: Final = ("identity", *DailyRollup._fields)
_PUT_DAY: Final = (
    f"INSERT OR REPLACE INTO daily_rollups ({', '.join(_DAY_COLUMNS)})"
    f" VALUES ({', '.join('?' * len(_DAY_COLUMNS))})"
)
# In the order in which they run: rows go before others take their place.
_STATEMENTS: Final = {
    "rollups": "INSERT INTO rollups (identity, branch, state) VALUES (?1, ?2, ?3)"
    " ON CONFLICT DO UPDATE SET branch = ?2, state = ?3",
    "days_of_other_branches": "DELETE FROM daily_rollups WHERE identity = ?",
    "dropped_days": "DELETE FROM daily_rollups WHERE identity = ? AND day = ?",
    "days": _PUT_DAY,
    "dropped_changes": "DELETE FROM health_changes WHERE test = ? AND identity = ? AND day = ?",
    # Triggers count the changes of tests when they are added and deleted, so only the time of one
    # may be updated.
    "moved_changes": "UPDATE health_changes SET at = ? WHERE test = ? AND identity = ? AND day = ?",
    "changes": "INSERT INTO health_changes (test, identity, day, repository_id, at, previous,"
    " health, identity_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "dropped_flaky_days": "DELETE FROM flaky_days WHERE test = ? AND identity = ? AND day = ?",
    "flaky_days": "INSERT INTO flaky_days (test, identity, day, repository_id, verdicts)"
    " VALUES (?, ?, ?, ?, ?)",
}


@dataclass(slots=True)
class RefreshedRows:
    """The changed rows of any number of tests: for each statement, the values of each row.

    `updates` has those of a table and its columns, each with the row id at the end.
    """

    rollups: list[tuple[Any, ...]] = field(default_factory=list)
    days_of_other_branches: list[tuple[Any, ...]] = field(default_factory=list)
    dropped_days: list[tuple[Any, ...]] = field(default_factory=list)
    days: list[tuple[Any, ...]] = field(default_factory=list)
    dropped_changes: list[tuple[Any, ...]] = field(default_factory=list)
    moved_changes: list[tuple[Any, ...]] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    dropped_flaky_days: list[tuple[Any, ...]] = field(default_factory=list)
    flaky_days: list[tuple[Any, ...]] = field(default_factory=list)
    updates: dict[tuple[str, tuple[str, ...]], list[tuple[Any, ...]]] = field(
        default_factory=partial(defaultdict, list)
    )

    def add(self, others: RefreshedRows) -> None:
        """Add the rows of other tests."""
        for name in _STATEMENTS:
            getattr(self, name).extend(getattr(others, name))
        for place, rows in others.updates.items():
            self.updates[place] += rows

    def __len__(self) -> int:
        """Return the number of rows."""
        updates = sum(map(len, self.updates.values()))
        return updates + sum(len(getattr(self, name)) for name in _STATEMENTS)

    def write(self, connection: sqlite3.Connection) -> None:
        """Write all rows."""
        for (table, columns), rows in self.updates.items():
            changed = ", ".join([f"{column} = ?" for column in columns])
            connection.executemany(f"UPDATE {table} SET {changed} WHERE id = ?", rows)
        for name, statement in _STATEMENTS.items():
            rows = getattr(self, name)
            if rows:
                connection.executemany(statement, rows)
