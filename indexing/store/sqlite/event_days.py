"""Stores the columns of large days of the event log, by which pull requests are counted.

`event_days` has the number of events of each day, and how many of them its columns have. Those are
the first to arrive, so an aggregate adds the later ones (`event_pulls.py`). A deletion drops the
columns of its day.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.event_plan import BASE_REF, OUTCOME, TRIGGER, TYPE
from indexing.store.sqlite.pull_columns import PullColumns, make_columns
from indexing.timestamps import DAY_MICROSECONDS, HOUR_MICROSECONDS, to_microseconds
from indexing.yielding import GoesOn

# Fewer events of a day are counted in about a tenth of a millisecond. The index of the days to
# count, of version 16 of the tables, has the same number.
WORTHWHILE: Final = 256
# A day that has not ended is stored again only if it has grown by this, and by an eighth.
GROWN: Final = 1_000
# The columns of more are made in many seconds, and would take much memory.
_MOST_EVENTS: Final = 2_000_000

# The hour of the day, from 0.
OF_DAY: Final = "hour"
_FIELDS: Final = (TYPE, OUTCOME, BASE_REF, TRIGGER)

# The row id of a repository, and the start of a UTC day in microseconds since 1970.
Day = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CountedDay:
    """A day of a repository: its number of events, the newest row id then, and the columns.

    The columns are `None` if the day is too large for them.
    """

    repository_id: int
    start: int
    events: int
    newest: int
    columns: PullColumns | None


async def refresh_event_counts(connections: Connections, now: datetime, goes_on: GoesOn) -> int:
    """Store the columns of days with new events, while `goes_on`; return how many."""
    done = 0
    for day in await connections.read_without_limit(partial(find_due_days, now=now)):
        if not await goes_on():
            break
        counted = await connections.read_without_limit(partial(count_day, day=day))
        if counted is not None:
            done += await connections.write(partial(store_day, day=counted))
    return done


def find_due_days(connection: sqlite3.Connection, now: datetime) -> list[Day]:
    """Return the days that have enough new events, the newest first."""
    return connection.execute(
        "SELECT repository_id, start FROM event_days"
        f" WHERE events > counted AND events >= {WORTHWHILE}"
        f" AND (start <= ? OR events > counted + max({GROWN}, counted / 8))"
        " ORDER BY start DESC",
        (to_microseconds(now) - DAY_MICROSECONDS,),
    ).fetchall()


def count_day(connection: sqlite3.Connection, day: Day) -> CountedDay | None:
    """Make the columns of a day; return `None` if it has no events any more."""
    connection.execute("BEGIN")
    try:
        row = connection.execute(
            "SELECT events, (SELECT max(row_id) FROM events) FROM event_days"
            " WHERE repository_id = ? AND start = ?",
            day,
        ).fetchone()
        if row is None:
            return None
        events, newest = row
        columns = None
        if events <= _MOST_EVENTS:
            columns = make_columns((OF_DAY, *_FIELDS), _events_of(connection, *day))
        return CountedDay(*day, events, newest, columns)
    finally:
        connection.rollback()


def store_day(connection: sqlite3.Connection, day: CountedDay) -> bool:
    """Store the columns; return whether they are those of the stored events.

    They are not if some of these events have been deleted meanwhile.
    """
    key = (day.repository_id, day.start)
    (later,) = connection.execute(
        "SELECT count(*) FROM events INDEXED BY events_by_arrival WHERE repository_id = ?"
        " AND row_id > ? AND received_at >= ? AND received_at < ?",
        (day.repository_id, day.newest, day.start, day.start + DAY_MICROSECONDS),
    ).fetchone()
    done = connection.execute(
        "UPDATE event_days SET counted = ? WHERE (repository_id, start) = (?, ?) AND events = ?",
        (day.events, *key, day.events + later),
    )
    if done.rowcount == 0:
        return False
    connection.execute("DELETE FROM event_columns WHERE (repository_id, start) = (?, ?)", key)
    if day.columns is not None:
        parts = (day.columns.header, day.columns.pulls, day.columns.codes)
        connection.execute(
            "INSERT INTO event_columns (repository_id, start, newest, header, pulls, codes)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*key, day.newest, *parts),
        )
    return True


def read_columns(connection: sqlite3.Connection, day: Day) -> tuple[int, PullColumns]:
    """Return the newest row id when the columns of a day were made, and the columns."""
    newest, *parts = connection.execute(
        "SELECT newest, header, pulls, codes FROM event_columns"
        " WHERE repository_id = ? AND start = ?",
        day,
    ).fetchone()
    return newest, PullColumns(*parts)


def _events_of(
    connection: sqlite3.Connection, repository_id: int, start: int
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    rows = connection.execute(
        f"SELECT pull_request, received_at, {', '.join(_FIELDS)} FROM events"
        " INDEXED BY events_by_time WHERE repository_id = ?"
        " AND received_at >= ? AND received_at < ? AND pull_request IS NOT NULL",
        (repository_id, start, start + DAY_MICROSECONDS),
    )
    for pull, received_at, *values in rows:
        yield pull, ((received_at - start) // HOUR_MICROSECONDS, *values)
