"""Stores the health history of each test: as one text, and as rows for lists and counts.

Both are written in one transaction, and only the rows that differ.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
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
from indexing.health.window import NEVER
from indexing.store.sqlite.refreshed_rows import RefreshedRows
from indexing.store.sqlite.stored_tests import StoredTest

# The value of the column `identity` in rows about the test as a whole; row ids begin at 1.
WHOLE_TEST: Final = 0

# The job and day of a row, and whether it is one of flaky verdicts.
_Place = tuple[Job | None, int, bool]

_COLUMNS: Final = ", ".join(f"d.{name}" for name in DailyRollup._fields)


class StoredHistory(NamedTuple):
    """The history of a test and its stored texts; without a text, no rows of it are stored.

    `lasting` is the text of its lasting verdicts, None if there are none.
    """

    text: bytes | None
    history: History
    lasting: bytes | None = None


NO_HISTORY: Final = StoredHistory(None, History())


def read_stored_history(
    connection: sqlite3.Connection, stored: StoredTest, *, has_days: bool
) -> StoredHistory:
    """Return the history of a test.

    For a test of an earlier release, it is computed from the daily rows. `has_days` is false for a
    new test, which has no daily rows.
    """
    if stored.history is not None:
        history = read_history(stored.history, stored.lasting)
        return StoredHistory(stored.history, history, stored.lasting)
    if not has_days:
        return NO_HISTORY
    days: dict[Job, list[DailyRollup]] = {}
    for pipeline, job, *columns in connection.execute(
        f"SELECT i.pipeline_name, i.job_name, {_COLUMNS} FROM identities i"
        " JOIN daily_rollups d ON d.identity = i.id WHERE i.test = ? ORDER BY d.identity, d.day",
        (stored.test,),
    ):
        days.setdefault((pipeline, job), []).append(DailyRollup(*columns))
    return StoredHistory(None, build_history(History(), days, NEVER))


def store_history(
    stored: StoredTest, before: StoredHistory, history: History, rows: RefreshedRows
) -> tuple[bytes, bytes | None] | None:
    """Add the rows of a history that differ; return its texts, None if they are stored already."""
    if before.text is not None and history == before.history:
        return None
    text = write_history(history)
    lasting = write_lasting(history.lasting) if history.lasting else None
    if before.text != text:
        earlier = () if before.text is None else before.history.rows()
        _store_rows(stored, _by_place(earlier), _by_place(history.rows()), rows)
    return text, lasting


def _by_place(rows: Iterable[Row]) -> dict[_Place, Row]:
    return {(row.job, row.day, row.health is None): row for row in rows}


def _store_rows(
    stored: StoredTest,
    before: Mapping[_Place, Row],
    after: Mapping[_Place, Row],
    rows: RefreshedRows,
) -> None:
    test, repository = stored.test, stored.repository_id
    identities: dict[Job | None, tuple[int, bytes | None]] = {
        each.job: (each.identity, each.identity_id) for each in stored.identities
    }
    identities[None] = (WHOLE_TEST, None)
    for place, old in before.items():
        row = after.get(place)
        if row is None or row not in (old, old._replace(at=row.at)):
            dropped = rows.dropped_flaky_days if old.health is None else rows.dropped_changes
            dropped.append((test, identities[old.job][0], old.day))
    for place, row in after.items():
        old_row = before.get(place)
        if row == old_row:
            continue
        identity, identity_id = identities[row.job]
        if row.health is None:
            rows.flaky_days.append((test, identity, row.day, repository, row.verdicts))
        elif old_row is not None and old_row._replace(at=row.at) == row:
            rows.moved_changes.append((row.at, test, identity, row.day))
        else:
            change = (row.at, row.previous, row.health)
            rows.changes.append((test, identity, row.day, repository, *change, identity_id))


def forget_history(connection: sqlite3.Connection, test: int) -> None:
    """Delete the history rows of a test that is about to be deleted."""
    for table in ("health_changes", "flaky_days"):
        connection.execute(f"DELETE FROM {table} WHERE test = ?", (test,))
