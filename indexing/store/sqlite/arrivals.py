"""Reads events in the order of arrival.

This is the order of their row ids, because only one process writes at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from typing import Any, Final

from indexing.identifiers import derive_repository_id
from indexing.models.arrivals import MOST_BYTES, Arrival, ArrivalKey, Arrivals
from indexing.models.paging import take_fitting
from indexing.names import RepositoryName
from indexing.store.sqlite.meta import read_number, write_number
from indexing.store.sqlite.repositories import find_repository_id

# SQLite assigns the row id after the greatest one that is stored. Retention may have deleted the
# greatest, so `meta` keeps the greatest that was ever assigned, and no row id is used twice.
_GIVEN: Final = "event_row_ids_given"


def find_newest(connection: sqlite3.Connection) -> ArrivalKey:
    """Return the position after every event that has arrived so far."""
    return ArrivalKey(max(_find_greatest(connection), _find_given(connection)))


def find_next_row_id(connection: sqlite3.Connection) -> int | None:
    """Return the row id for the next event; `None` if SQLite assigns the right one itself."""
    given = _find_given(connection)
    return given + 1 if given > _find_greatest(connection) else None


def note_given(connection: sqlite3.Connection) -> None:
    """Record the greatest assigned row id; call this before events are deleted."""
    write_number(connection, _GIVEN, find_newest(connection).sequence)


def list_arrivals(
    connection: sqlite3.Connection,
    after: ArrivalKey,
    limit: int,
    among: Collection[RepositoryName] | None,
) -> Arrivals:
    newest = find_newest(connection)
    source, condition = "events e", ""
    parameters: list[int | None] = []
    if among is not None and len(among) == 1:
        (repository,) = among
        source, condition = "events e INDEXED BY events_by_arrival", "e.repository_id = ? AND "
        parameters = [find_repository_id(connection, repository)]
    ids: dict[tuple[str, str], bytes] = {}
    found = connection.execute(
        "SELECT e.row_id, e.received_at, e.id, r.owner, r.name, e.type, CAST(e.body AS BLOB)"
        f" FROM {source} CROSS JOIN repositories r ON r.id = e.repository_id"
        f" WHERE {condition}e.row_id > ? ORDER BY e.row_id LIMIT ?",
        (*parameters, after.sequence, limit),
    )
    # An open cursor would keep its snapshot of the file.
    with closing(found):
        rows, fit = take_fitting((_arrival_of(row, ids) for row in found), MOST_BYTES)
    is_all = fit and len(rows) < limit
    until = max(newest, after) if is_all else rows[-1].key
    if among is not None and len(among) != 1:
        # No index has the events of several repositories in this order.
        wanted = set(map(derive_repository_id, among))
        rows = tuple(row for row in rows if row.repository_id in wanted)
    return Arrivals(rows, until, is_all)


def _arrival_of(row: tuple[Any, ...], ids: dict[tuple[str, str], bytes]) -> Arrival:
    row_id, received_at, event_id, owner, name, kind, body = row
    repository_id = ids.get((owner, name))
    if repository_id is None:
        repository_id = ids[owner, name] = derive_repository_id(RepositoryName(owner, name))
    return Arrival(ArrivalKey(row_id, received_at, event_id), repository_id, kind, body)


def _find_greatest(connection: sqlite3.Connection) -> int:
    greatest: int | None = connection.execute("SELECT max(row_id) FROM events").fetchone()[0]
    return greatest or 0


def _find_given(connection: sqlite3.Connection) -> int:
    return read_number(connection, _GIVEN) or 0
