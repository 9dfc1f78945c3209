"""Counts the event log with aggregations; every count is exact.

Counting costs about as much for each event and facet as reading a column. So the whole hours of a
large range are added up from stored tables (`event_whole_days`), and only the ends are counted.

All other ranges are counted. A node keeps the answer of each index until the index changes, if the
same search is sent again. So the whole bars of a range are counted by one search, and the parts of
bars at its ends by others: while the range of a dashboard moves within a bar, the large search
stays the same.

A facet with too many values to be added up is counted by a search of its own over the whole range
(`event_top_values`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from indexing.health.window import day_of
from indexing.models.event_aggregates import Bars, EventAggregate, rank
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import count_facets, make_query, slices_of
from indexing.store.elasticsearch.event_sums import EventSums
from indexing.store.elasticsearch.event_top_values import count_top_values
from indexing.store.elasticsearch.event_whole_days import RememberedDays, count_whole_hours
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.timestamps import (
    DAY_MICROSECONDS,
    HOUR_MICROSECONDS,
    from_microseconds,
    to_microseconds,
)

# The most days to add up from stored tables.
_MOST_DAYS: Final = 92


async def aggregate_events(
    cluster: Cluster, remembered: RememberedDays, query: EventQuery, bars: Bars
) -> EventAggregate:
    sums = EventSums(bars.size)
    if bars.count:
        retention = await cluster.control.read_retention()
        rest = await _add_hours(cluster, remembered, query, retention, sums)
        if rest is None:
            rest = list(_split(query, bars.size))
        await _add_rows(cluster, rest, retention, sums)
        for name in sums.dropped:
            sums.facets[name] = await count_top_values(cluster, query, name, retention)
    facets = sums.facets
    return EventAggregate(
        total=sums.bars.total(),
        histogram=tuple(sums.bars[bars.first + number] for number in range(bars.count)),
        by_event_type=rank(facets["type"]),
        by_outcome=rank(facets["outcome"]),
        by_trigger=rank(facets["trigger"]),
        by_pull_request=rank(facets["pull_request"]),
    )


async def _add_hours(
    cluster: Cluster,
    remembered: RememberedDays,
    query: EventQuery,
    retention: Retention,
    sums: EventSums,
) -> list[EventQuery] | None:
    """Add the counts of the whole hours of past days; return queries for all other events.

    Returns `None`, and adds nothing, if there are none or counting all events is faster.
    """
    whole = _whole_hours_of(query, retention)
    if whole is None or sums.size % HOUR_MICROSECONDS:
        return None
    found = await count_whole_hours(cluster, remembered, whole, retention, sums.size)
    if found is None:
        return None
    sums.add(found.sums)
    return _find_rest(query, whole, found.left_out)


def _find_rest(query: EventQuery, whole: EventQuery, days: Sequence[int]) -> list[EventQuery]:
    """Return queries for the ends of the range, and for what the whole hours have of these days."""
    parts = [replace(query, received_to=whole.received_from)]
    for day in days:
        midnight, next_midnight = (
            from_microseconds(each * DAY_MICROSECONDS) for each in (day, day + 1)
        )
        start, end = max(midnight, whole.received_from), min(next_midnight, whole.received_to)
        if parts[-1].received_to == start:
            parts[-1] = replace(parts[-1], received_to=end)
        else:
            parts.append(replace(query, received_from=start, received_to=end))
    parts.append(replace(query, received_from=whole.received_to))
    return [part for part in parts if part.received_from < part.received_to]


def _whole_hours_of(query: EventQuery, retention: Retention) -> EventQuery | None:
    """Return the query for the whole hours of days that are past and not reached by retention."""
    start, end = to_microseconds(query.received_from), to_microseconds(query.received_to)
    first = -(-start // HOUR_MICROSECONDS) * HOUR_MICROSECONDS
    first = max(first, (retention.final_day + 1) * DAY_MICROSECONDS)
    last = end // HOUR_MICROSECONDS * HOUR_MICROSECONDS
    last = min(last, day_of(datetime.now(UTC)) * DAY_MICROSECONDS)
    if first >= last or last - first > _MOST_DAYS * DAY_MICROSECONDS:
        return None
    return replace(
        query, received_from=from_microseconds(first), received_to=from_microseconds(last)
    )


async def _add_rows(
    cluster: Cluster, queries: Sequence[EventQuery], retention: Retention, sums: EventSums
) -> None:
    """Count the events of these queries, whatever is stored."""
    searches = [
        Search(
            slices_of(cluster.layout, query),
            count_facets(make_query(query, retention), sums.size, sums.fields),
            routing_of(query.repository),
        )
        for query in queries
    ]
    answers = await cluster.connection.search_many(searches) if searches else []
    for answer in answers:
        sums.add_answer(answer)


def _split(query: EventQuery, size: int) -> Iterator[EventQuery]:
    """Yield queries for the whole bars of the range, and for the parts of bars at its ends."""
    start, end = to_microseconds(query.received_from), to_microseconds(query.received_to)
    first, last = -(-start // size) * size, end // size * size
    for low, high in pairwise((start, first, last, end) if first < last else (start, end)):
        if low < high:
            yield replace(
                query, received_from=from_microseconds(low), received_to=from_microseconds(high)
            )
