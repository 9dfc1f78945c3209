"""Counts the events of a log, in bars of a histogram and by facets.

Whole hours and days are read from stored counts, the rest from the events. Each transaction that
changes the events changes the stored counts (`event_tally.py`), so they are always exact.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from indexing.models.event_aggregates import (
    Bars,
    EventAggregate,
    FacetValue,
    rank,
)
from indexing.models.events import EventQuery
from indexing.store.sqlite.columns import OUTCOMES
from indexing.store.sqlite.event_plan import (
    OUTCOME,
    TRIGGER,
    TYPE,
    Restriction,
    Span,
    make_plan,
    restrictions_of,
    span_of,
)
from indexing.store.sqlite.event_pulls import rank_pull_requests
from indexing.store.sqlite.event_tally import NONE
from indexing.store.sqlite.repositories import find_repository_id
from indexing.timestamps import DAY_MICROSECONDS, HOUR_MICROSECONDS

_FACETS: Final = (TYPE, OUTCOME, TRIGGER)


@dataclass(slots=True)
class _Counts:
    """Counts by bar, and by the values of each facet except pull requests."""

    bars: Counter[int] = field(default_factory=Counter)
    facets: dict[str, Counter[Any]] = field(
        default_factory=lambda: {name: Counter() for name in _FACETS}
    )

    def subtract(self, other: _Counts) -> None:
        self.bars.subtract(other.bars)
        for name, counts in other.facets.items():
            self.facets[name].subtract(counts)


def aggregate_events(
    connection: sqlite3.Connection, query: EventQuery, bars: Bars
) -> EventAggregate:
    repository_id = find_repository_id(connection, query.repository)
    counts = _Counts()
    pull_requests: tuple[FacetValue[int], ...] = ()
    if repository_id is not None and query.received_from < query.received_to:
        log = _Log(connection, repository_id, bars)
        if query.pull_requests:
            counts = log.count_rows(query)
        elif query.pull_requests_excluded:
            # Excluded pull requests have few events: count all, then subtract theirs.
            counts = log.count(replace(query, pull_requests_excluded=()))
            left_out = replace(
                query, pull_requests=query.pull_requests_excluded, pull_requests_excluded=()
            )
            counts.subtract(log.count_rows(left_out))
        else:
            counts = log.count(query)
        pull_requests = rank_pull_requests(connection, repository_id, query)
    facets = {name: +found for name, found in counts.facets.items()}
    facets[TRIGGER].pop(None, None)
    return EventAggregate(
        total=counts.bars.total(),
        histogram=tuple(counts.bars[bars.first + number] for number in range(bars.count)),
        by_event_type=rank(facets[TYPE]),
        by_outcome=rank({OUTCOMES[each].value: n for each, n in facets[OUTCOME].items()}),
        by_trigger=rank(facets[TRIGGER]),
        by_pull_request=pull_requests,
    )


@dataclass(frozen=True, slots=True)
class _Log:
    """The log of one repository."""

    connection: sqlite3.Connection
    repository_id: int
    bars: Bars

    def count(self, query: EventQuery) -> _Counts:
        """Count the events of a query that does not filter by pull request."""
        counts = _Counts()
        whole = span_of(query)
        restrictions = restrictions_of(query)
        for span, part in _split(whole, (DAY_MICROSECONDS, HOUR_MICROSECONDS)):
            if span is None:
                self._add_rows(counts.facets, query, part)
            else:
                self._add_stored(counts.facets, restrictions, span, part)
        fitting = tuple(
            span for span in (DAY_MICROSECONDS, HOUR_MICROSECONDS) if self.bars.size % span == 0
        )
        for span, part in _split(whole, fitting):
            if span is None:
                self._add_bars(counts.bars, query, part)
            else:
                self._add_stored_bars(counts.bars, restrictions, span, part)
        return counts

    def count_rows(self, query: EventQuery) -> _Counts:
        """Count the events of any query without using the stored counts."""
        counts = _Counts()
        whole = span_of(query)
        self._add_rows(counts.facets, query, whole)
        self._add_bars(counts.bars, query, whole)
        return counts

    def _add_rows(self, facets: dict[str, Counter[Any]], query: EventQuery, part: Span) -> None:
        for *values, count in self._group_rows(query, part, ", ".join(_FACETS), "1, 2, 3"):
            for name, value in zip(_FACETS, values, strict=True):
                facets[name][value] += count

    def _add_bars(self, bars: Counter[int], query: EventQuery, part: Span) -> None:
        number_of = _bar_number(self.bars.size)
        for number, count in self._group_rows(query, part, number_of, "1"):
            bars[number] += count

    def _group_rows(
        self, query: EventQuery, part: Span, values: str, grouped_by: str
    ) -> Iterator[tuple[Any, ...]]:
        plan = make_plan(query)
        sql = (
            f"SELECT {values}, count(*) FROM events INDEXED BY {plan.index}"
            f" WHERE repository_id = ?{plan.comparison}"
            f" AND received_at >= ? AND received_at < ?{plan.condition}"
            f" GROUP BY {grouped_by}"
        )
        for value in plan.reads:
            yield from self.connection.execute(
                sql, (self.repository_id, *value, *part, *plan.parameters)
            )

    def _add_stored(
        self,
        facets: dict[str, Counter[Any]],
        restrictions: Sequence[Restriction],
        span: int,
        part: Span,
    ) -> None:
        columns = ", ".join(_FACETS)
        rows = self._read_stored(f"{columns}, sum(count)", restrictions, span, part, columns)
        for *values, count in rows:
            for name, value in zip(_FACETS, values, strict=True):
                facets[name][None if value == NONE else value] += count

    def _add_stored_bars(
        self, bars: Counter[int], restrictions: Sequence[Restriction], span: int, part: Span
    ) -> None:
        # By the start, because the table is in its order: SQLite adds up without sorting.
        for start, count in self._read_stored(
            "start, sum(count)", restrictions, span, part, "start"
        ):
            bars[start // self.bars.size] += count

    def _read_stored(
        self,
        what: str,
        restrictions: Sequence[Restriction],
        span: int,
        part: Span,
        grouped_by: str,
    ) -> sqlite3.Cursor:
        conditions = "".join(each.condition for each in restrictions)
        return self.connection.execute(
            f"SELECT {what} FROM event_counts WHERE repository_id = ? AND span = ?"
            f" AND start >= ? AND start < ?{conditions} GROUP BY {grouped_by}",
            (self.repository_id, span, *part, *(each.parameter for each in restrictions)),
        )


def _split(whole: Span, spans: Sequence[int]) -> Iterator[tuple[int | None, Span]]:
    """Yield the parts of a range: whole multiples of each span, and what is left at the ends.

    `spans` are lengths in microseconds, the longest first. A part at the ends has the span `None`.
    """
    start, end = whole
    if start >= end:
        return
    if not spans:
        yield None, whole
        return
    span = spans[0]
    first, last = -(-start // span) * span, end // span * span
    if first >= last:
        yield from _split(whole, spans[1:])
        return
    yield from _split((start, first), spans[1:])
    yield span, (first, last)
    yield from _split((last, end), spans[1:])


def _bar_number(size: int) -> str:
    """Return SQL for the number of the bar that an event is in; it may be from before 1970."""
    return f"(received_at / {size} - (received_at % {size} < 0))"
