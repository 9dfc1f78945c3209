"""Counts the event log with aggregations; every count is exact.

Counting costs about as much for each event and facet as reading a column. So the whole days of a
large range are added up from stored counts (`event_whole_days`), and only the ends are counted.

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

from indexing.health.window import DAY_MICROSECONDS, day_of
from indexing.models.event_aggregates import Bars, EventAggregate, rank
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_day_counts import HOUR_MICROSECONDS
from indexing.store.elasticsearch.event_query import (
    MOST_VALUES,
    count_facets,
    make_query,
    slices_of,
)
from indexing.store.elasticsearch.event_sums import EventSums
from indexing.store.elasticsearch.event_top_values import count_top_values
from indexing.store.elasticsearch.event_whole_days import RememberedDays, count_whole_days
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.timestamps import from_microseconds, to_microseconds

# The most days to add up from stored counts.
_MOST_DAYS: Final = 92
# The most parts of such a range to count one after another: the two ends, and days whose counts are
# too large to be stored.
_MOST_PARTS: Final = 4


async def aggregate_events(
    cluster: Cluster, remembered: RememberedDays, query: EventQuery, bars: Bars
) -> EventAggregate:
    sums = EventSums(bars.size)
    if bars.count:
        retention = await cluster.control.read_retention()
        rest = await _add_days(cluster, remembered, query, retention, sums)
        if rest is None:
            rest = list(_split(query, bars.size))
        await _add_rows(cluster, rest, retention, sums)
        for name in sums.dropped:
            sums.facets[name] = await count_top_values(cluster, query, name, retention)
    # What was subtracted may have left zeros.
    facets = {
        name: {value: count for value, count in counts.items() if count}
        for name, counts in sums.facets.items()
    }
    return EventAggregate(
        total=sums.bars.total(),
        histogram=tuple(sums.bars[bars.first + number] for number in range(bars.count)),
        by_event_type=rank(facets["type"]),
        by_outcome=rank(facets["outcome"]),
        by_trigger=rank(facets["trigger"]),
        by_pull_request=rank(facets["pull_request"]),
    )


async def _add_days(
    cluster: Cluster,
    remembered: RememberedDays,
    query: EventQuery,
    retention: Retention,
    sums: EventSums,
) -> list[EventQuery] | None:
    """Add the counts of the whole days of the range; return queries for all other events.

    Returns `None`, and adds nothing, if there are none or counting all events is faster.
    """
    days = _days_of(query, retention)
    if not days or len(days) > _MOST_DAYS or sums.size % HOUR_MICROSECONDS:
        return None
    start, end = (from_microseconds(day * DAY_MICROSECONDS) for day in (days.start, days.stop))
    whole = replace(query, received_from=start, received_to=end)
    found = await count_whole_days(cluster, remembered, whole, retention, sums.size)
    rest = [] if found is None else _find_rest(query, start, end, found.left_out)
    if found is None or len(rest) > _MOST_PARTS:
        return None
    sums.add(found.sums)
    return rest


def _find_rest(
    query: EventQuery, start: datetime, end: datetime, days: Sequence[int]
) -> list[EventQuery]:
    """Return queries for the range before `start`, these days, and the range from `end` on."""
    parts = [replace(query, received_to=start)]
    for day in days:
        midnight, next_midnight = (
            from_microseconds(each * DAY_MICROSECONDS) for each in (day, day + 1)
        )
        if parts[-1].received_to == midnight:
            parts[-1] = replace(parts[-1], received_to=next_midnight)
        else:
            parts.append(replace(query, received_from=midnight, received_to=next_midnight))
    parts.append(replace(query, received_from=end))
    return [part for part in parts if part.received_from < part.received_to]


def _days_of(query: EventQuery, retention: Retention) -> range:
    """Return the whole UTC days of the range that are past and that retention has not reached."""
    start, end = to_microseconds(query.received_from), to_microseconds(query.received_to)
    first = max(-(-start // DAY_MICROSECONDS), retention.final_day + 1)
    return range(first, min(end // DAY_MICROSECONDS, day_of(datetime.now(UTC))))


async def _add_rows(
    cluster: Cluster, queries: Sequence[EventQuery], retention: Retention, sums: EventSums
) -> None:
    """Count the events of these queries, whatever is stored."""
    searches = [
        Search(
            slices_of(cluster, query),
            count_facets(make_query(query, retention), sums.size, MOST_VALUES, sums.fields),
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
