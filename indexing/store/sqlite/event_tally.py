"""Adds the events of a transaction to the stored counts.

Whoever inserts events calls this in the same transaction. Database triggers subtract those that are
deleted.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any, Final

from indexing.timestamps import DAY_MICROSECONDS, HOUR_MICROSECONDS

# The stored counts have this in place of null, because it is part of a key. No text contains it.
NONE: Final = "\0"


class EventTally:
    """The events that a transaction inserts, not yet in the stored counts."""

    def __init__(self) -> None:
        # By repository, start of the hour, type, outcome, trigger and base branch.
        self._hours: Counter[tuple[Any, ...]] = Counter()

    def add(
        self,
        repository_id: int,
        received_at: int,
        values: tuple[str, int, str | None, str | None],
    ) -> None:
        """Add an event; `values` are its type, outcome, trigger and base branch."""
        kind, outcome, trigger, base_ref = values
        trigger = NONE if trigger is None else trigger
        base_ref = NONE if base_ref is None else base_ref
        hour = received_at - received_at % HOUR_MICROSECONDS
        self._hours[repository_id, hour, kind, outcome, trigger, base_ref] += 1

    def store(self, connection: sqlite3.Connection) -> None:
        """Add to the stored counts."""
        days: Counter[tuple[Any, ...]] = Counter()
        for (repository_id, hour, *values), count in self._hours.items():
            days[repository_id, hour - hour % DAY_MICROSECONDS, *values] += count
        for span, counts in ((HOUR_MICROSECONDS, self._hours), (DAY_MICROSECONDS, days)):
            # In the order of the table, which is faster.
            connection.executemany(
                f"INSERT INTO event_counts VALUES (?, {span}, ?, ?, ?, ?, ?, ?) ON CONFLICT"
                " (repository_id, span, start, type, outcome, triggered_by, base_ref)"
                " DO UPDATE SET count = count + excluded.count",
                [(*key, count) for key, count in sorted(counts.items())],
            )
        totals: Counter[tuple[int, int]] = Counter()
        for (repository_id, day, *_), count in days.items():
            totals[repository_id, day] += count
        connection.executemany(
            "INSERT INTO event_days VALUES (?, ?, ?, 0)"
            " ON CONFLICT (repository_id, start) DO UPDATE SET events = events + excluded.events",
            [(*key, count) for key, count in sorted(totals.items())],
        )
