"""Rows of the event log: written once, read page by page from the index that fits the filters."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from indexing.errors import StaleKeyError
from indexing.models.events import (
    MOST_PAGE_BYTES,
    EventKey,
    EventQuery,
    EventRow,
    StoredEvent,
    fit_page,
)
from indexing.models.paging import Anchor, Page
from indexing.store.interface import EventOutcome
from indexing.store.sqlite.arrivals import find_next_row_id
from indexing.store.sqlite.columns import OUTCOME_NUMBERS
from indexing.store.sqlite.event_plan import INDEXES, EventPlan, make_plan, span_of
from indexing.store.sqlite.event_tally import EventTally
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.meta import read_number
from indexing.store.sqlite.repositories import find_repository_id, require_repository_id
from indexing.timestamps import to_microseconds

# The row of `meta` in which `prune` records the time before which it deletes events.
PRUNED_BEFORE: Final = "events_pruned_before"

_ORDER: Final = ("received_at", "id")
# One more than a plan accepts, and the null at the end.
_MOST_VALUES: Final = 102
# How many rows are read before their sizes are added up: each may have a megabyte.
_ROWS_AT_ONCE: Final = 32
# Read as bytes: the driver would decode text only for it to be encoded again.
_ROW: Final = "received_at, id, CAST(body AS BLOB)"
# What `EventRow._make` does for a tuple of the right length, without a call of Python code for each
# row.
_make_row: Final = partial(tuple.__new__, EventRow)


def write_events(
    connection: sqlite3.Connection, events: Sequence[StoredEvent]
) -> list[EventOutcome]:
    repository_ids: dict[str, int] = {}
    outcomes: list[EventOutcome] = []
    row_id = find_next_row_id(connection)
    tally = EventTally()
    for event in events:
        name = event.repository
        repository_id = repository_ids.get(name.key)
        if repository_id is None:
            repository_id = require_repository_id(connection, name)
            repository_ids[name.key] = repository_id
        outcomes.append(_write_event(connection, repository_id, event, row_id, tally))
        if outcomes[-1] is EventOutcome.WRITTEN:
            # From now on, the row id that SQLite assigns is the right one.
            row_id = None
    tally.store(connection)
    return outcomes


def _write_event(
    connection: sqlite3.Connection,
    repository_id: int,
    event: StoredEvent,
    row_id: int | None,
    tally: EventTally,
) -> EventOutcome:
    received_at = to_microseconds(event.key.received_at)
    key = (repository_id, received_at, event.key.id)
    body = event.body.decode()
    trigger, outcome = event.searchable_trigger, OUTCOME_NUMBERS[event.outcome]
    done = connection.execute(
        "INSERT INTO events (repository_id, received_at, id, type, pull_request, base_ref, body,"
        " triggered_by, outcome, row_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (repository_id, received_at, id) DO NOTHING",
        (
            *key,
            event.type,
            event.pull_request,
            event.base_ref,
            body,
            trigger,
            outcome,
            row_id,
        ),
    )
    if done.rowcount:
        values = (event.type, outcome, trigger, event.base_ref)
        tally.add(repository_id, received_at, values)
        return EventOutcome.WRITTEN
    (stored,) = connection.execute(
        "SELECT body FROM events WHERE repository_id = ? AND received_at = ? AND id = ?", key
    ).fetchone()
    return EventOutcome.UNCHANGED if stored == body else EventOutcome.CONFLICT


def list_events(
    connection: sqlite3.Connection,
    query: EventQuery,
    anchor: Anchor[EventKey],
    limit: int,
    *,
    by_complement: bool = False,
) -> Page[EventRow]:
    """Read one page.

    With `by_complement`, a filter that excludes values is read as all other values, one by one.
    This is best if most rows are excluded.
    """
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return Page((), has_previous=False, has_next=False)
    if anchor.key is not None:
        _check_not_pruned(connection, repository_id, anchor.key)
    plan = make_plan(query)
    if by_complement:
        plan = _complement(connection, repository_id, plan)

    fits = False

    def fetch(rows: Slice) -> list[EventRow]:
        nonlocal fits
        sql, parameters = _select(query, plan, repository_id, rows)
        found = connection.execute(sql, parameters)
        if rows.limit is not None and rows.limit <= _ROWS_AT_ONCE:
            return list(map(_make_row, found))
        taken, fits = _take_page(found)
        # An open cursor would keep its snapshot of the file.
        found.close()
        return taken

    page = read_page(
        fetch, _ORDER, anchor=anchor, key_of=_key_columns, ascending=False, limit=limit
    )
    return page if fits else fit_page(page, backward=anchor.backward)


def _take_page(found: sqlite3.Cursor) -> tuple[list[EventRow], bool]:
    """Return the first rows, and whether these are all and fit into a page.

    An event may have a megabyte, and all further rows would be read for nothing.
    """
    rows: list[EventRow] = []
    size = 0
    while size <= MOST_PAGE_BYTES:
        some = list(map(_make_row, islice(found, _ROWS_AT_ONCE)))
        rows += some
        size += sum([len(body) for _, _, body in some])
        if len(some) < _ROWS_AT_ONCE:
            return rows, size <= MOST_PAGE_BYTES
    return rows, False


def _complement(connection: sqlite3.Connection, repository_id: int, plan: EventPlan) -> EventPlan:
    column = plan.excluded_column
    if column is None:
        return plan
    # This takes one index look-up for each distinct value.
    index = INDEXES[column]
    of_repository = f"FROM events INDEXED BY {index} WHERE repository_id = ?1"
    values = connection.execute(
        f"WITH RECURSIVE found (value) AS (SELECT min({column}) {of_repository} UNION ALL"
        f" SELECT (SELECT min({column}) {of_repository} AND {column} > value) FROM found"
        f" WHERE value IS NOT NULL LIMIT {_MOST_VALUES})"
        " SELECT value FROM found",
        (repository_id,),
    )
    # The last value is null: it ends the recursion, and finds the events without a trigger or with
    # one that is too long to index.
    return plan.by_complement([value for (value,) in values]) or plan


def _select(
    query: EventQuery, plan: EventPlan, repository_id: int, rows: Slice
) -> tuple[str, list[Any]]:
    """Build one ordered index read for each value of the plan, merged.

    An index has the right order for a single value only. So each value takes one read, and SQLite
    merges the sorted results; no read goes further than the page. Bodies are joined last, because a
    merge copies its rows.
    """
    within, within_values = _range(query, rows)
    one = (
        f"FROM events INDEXED BY {plan.index}"
        f" WHERE repository_id = ?{plan.comparison}{within}{plan.condition} {rows.limited_order}"
    )
    reads = plan.reads
    common = [*within_values, *plan.parameters]
    parameters = [p for value in reads for p in (repository_id, *value, *common)]
    if not reads:
        return f"SELECT {_ROW} FROM events WHERE 0", []
    if len(reads) == 1:
        return f"SELECT {_ROW} {one}", parameters
    keys = f"SELECT * FROM (SELECT row_id, {', '.join(_ORDER)} {one})"
    found = " UNION ALL ".join([keys] * len(reads))
    # A cross join keeps the order of its left side.
    sql = (
        f"SELECT {_ROW} FROM (SELECT row_id AS found FROM ({found}) {rows.limited_order})"
        " CROSS JOIN events ON row_id = found"
    )
    return sql, parameters


def _range(query: EventQuery, rows: Slice) -> tuple[str, list[Any]]:
    """Build the conditions for the time range and the key, with one bound at each end.

    SQLite uses one bound at each end of an index. If the range and the key both had a bound at one
    end, it might use the farther one: a deep page would then cost as much as all rows before it.
    """
    start, end = span_of(query)
    beyond_key = f" AND {rows.condition}"
    after, before = " AND received_at >= ?", " AND received_at < ?"
    if rows.key is None:
        return after + before, [start, end]
    if rows.ascending:
        if rows.key[0] >= start:
            return beyond_key + before, [*rows.parameters, end]
    elif rows.key[0] < end:
        return after + beyond_key, [start, *rows.parameters]
    # The whole range lies beyond the key.
    return after + before, [start, end]


def read_pruned_before(connection: sqlite3.Connection) -> int | None:
    """Return the time before which retention has removed rows, of events and of executions."""
    return read_number(connection, PRUNED_BEFORE)


def find_repositories(connection: sqlite3.Connection, before: datetime) -> list[int]:
    """Return the row ids of the repositories that have events before that moment."""
    rows = connection.execute(
        "SELECT r.id FROM repositories r WHERE EXISTS (SELECT 1 FROM events"
        " INDEXED BY events_by_time WHERE repository_id = r.id AND received_at < ?)",
        (to_microseconds(before),),
    )
    return [repository_id for (repository_id,) in rows]


def _check_not_pruned(connection: sqlite3.Connection, repository_id: int, key: EventKey) -> None:
    """Raise `StaleKeyError` if retention deleted the row of the key, and so its neighbours."""
    received_at, event_id = _key_columns(key)
    row = connection.execute(
        "SELECT 1 FROM meta WHERE name = ? AND CAST(CAST(value AS TEXT) AS INTEGER) > ?"
        " AND NOT EXISTS (SELECT 1 FROM events"
        " WHERE repository_id = ? AND received_at = ? AND id = ?)",
        (PRUNED_BEFORE, received_at, repository_id, received_at, event_id),
    ).fetchone()
    if row is not None:
        raise StaleKeyError("retention dropped the event that this page was to continue from")


def _key_columns(key: EventKey) -> tuple[int, int]:
    return to_microseconds(key.received_at), key.id
