"""Counts events by pull request, under any filters.

Whole hours of large days are counted in columns (`event_days.py`), the rest in the events.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from indexing.models.event_aggregates import FacetValue, rank
from indexing.models.events import EventQuery, Outcome
from indexing.store.sqlite.event_days import OF_DAY, read_columns
from indexing.store.sqlite.event_plan import (
    PULL_REQUEST,
    Restriction,
    Span,
    make_plan,
    restrictions_of,
    span_of,
)
from indexing.store.sqlite.pull_columns import count_pulls
from indexing.timestamps import DAY_MICROSECONDS, HOUR_MICROSECONDS


def rank_pull_requests(
    connection: sqlite3.Connection, repository_id: int, query: EventQuery
) -> tuple[FacetValue[int], ...]:
    """Return the facet of pull requests."""
    log = _Log(connection, repository_id, query)
    whole = span_of(query)
    if query.pull_requests:
        log.add_rows(whole)
    else:
        log.add_columns(whole)
    return rank(log.counts)


class _Log:
    """The matching events of one log, counted by pull request so far."""

    def __init__(
        self, connection: sqlite3.Connection, repository_id: int, query: EventQuery
    ) -> None:
        self.counts: dict[int, int] = {}
        self._connection = connection
        self._repository_id = repository_id
        self._query = query

    def add_columns(self, whole: Span) -> None:
        """Count in the columns of each day that has some, and the rest in the events."""
        filters = {each.column: _check(each) for each in restrictions_of(self._query)}
        filters.pop(PULL_REQUEST, None)
        rest: list[Span] = []
        at, end = whole
        for start, events, counted in self._days(whole):
            newest, columns = read_columns(self._connection, (self._repository_id, start))
            first, last = max(at, start), min(end, start + DAY_MICROSECONDS)
            hours = range(
                -(-(first - start) // HOUR_MICROSECONDS), (last - start) // HOUR_MICROSECONDS
            )
            within = start + hours.start * HOUR_MICROSECONDS, start + hours.stop * HOUR_MICROSECONDS
            if not hours or (events > counted and not self._add_later(newest, counted, within)):
                continue
            of_day = (
                {OF_DAY: hours.__contains__} if within != (start, start + DAY_MICROSECONDS) else {}
            )
            self._add(count_pulls(columns, {**filters, **of_day}))
            rest.append((at, within[0]))
            at = within[1]
        for pull in self._query.pull_requests_excluded:
            self.counts.pop(pull, None)
        for span in (*rest, (at, end)):
            self.add_rows(span)

    def add_rows(self, span: Span) -> None:
        """Count events of a time range."""
        if span[0] >= span[1]:
            return
        query = self._query
        if not restrictions_of(query):
            # This selects the index by outcome: it contains the pull request, and the index by
            # time does not.
            query = replace(query, outcomes=tuple(Outcome))
        plan = make_plan(query)
        for value in plan.reads:
            self._add_events(
                f"INDEXED BY {plan.index} WHERE repository_id = ?{plan.comparison}"
                f" AND received_at >= ? AND received_at < ?{plan.condition}",
                (self._repository_id, *value, *span, *plan.parameters),
            )

    def _days(self, whole: Span) -> list[tuple[int, int, int]]:
        return self._connection.execute(
            "SELECT d.start, d.events, d.counted FROM event_days d"
            " JOIN event_columns USING (repository_id, start)"
            " WHERE d.repository_id = ? AND d.start > ? AND d.start < ? ORDER BY d.start",
            (self._repository_id, whole[0] - DAY_MICROSECONDS, whole[1]),
        ).fetchall()

    def _add_later(self, newest: int, counted: int, span: Span) -> bool:
        """Count the events that are not in the columns; return whether that was worthwhile."""
        (last,) = self._connection.execute("SELECT max(row_id) FROM events").fetchone()
        if last - newest > counted:
            return False
        restrictions = restrictions_of(self._query)
        self._add_events(
            "INDEXED BY events_by_arrival WHERE repository_id = ? AND row_id > ?"
            " AND received_at >= ? AND received_at < ?"
            + "".join(each.condition for each in restrictions),
            (self._repository_id, newest, *span, *(each.parameter for each in restrictions)),
        )
        return True

    def _add_events(self, which: str, parameters: Iterable[Any]) -> None:
        self._add(
            self._connection.execute(
                f"SELECT pull_request, count(*) FROM events {which}"
                " AND pull_request IS NOT NULL GROUP BY 1",
                tuple(parameters),
            )
        )

    def _add(self, found: Iterable[tuple[int, int]]) -> None:
        # Twice as fast as a `defaultdict`, which makes most of its values by a call.
        counts = self.counts
        get = counts.get
        for pull, count in found:
            if count:
                counts[pull] = get(pull, 0) + count


def _check(restriction: Restriction) -> Callable[[Any], bool]:
    values = frozenset(restriction.values)
    if restriction.excluded:
        return lambda value: value not in values
    return values.__contains__
