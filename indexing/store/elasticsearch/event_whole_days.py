"""Counts the matching events of whole hours of past days, and remembers the counts.

They are added up from the tables of these days. Events never change, and only retention deletes
them, which has not reached these days. So days with as many events as before have the same events:
dashboards that poll cost one search for that number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from indexing.lru import Lru
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.client.connection import READING
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.event_conditions import conditions_of
from indexing.store.elasticsearch.event_days import (
    count_events,
    count_search,
    query_of,
    read_current,
)
from indexing.store.elasticsearch.event_query import (
    count_facets,
    every_of,
    make_query,
    without_exclusions,
)
from indexing.store.elasticsearch.event_sums import EventSums
from indexing.store.elasticsearch.event_tables import HOURS_A_DAY, DayTable
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.timestamps import DAY_MICROSECONDS, HOUR_MICROSECONDS, to_microseconds
from indexing.yielding import LoopYielder

# With fewer events, counting all of them is faster than reading and adding up tables.
WORTHWHILE: Final = 50_000
# The same for events that match the filters of a query.
_WORTHWHILE_MATCHES: Final = 5_000
# The most days to count each time, because they have no table that is up to date.
_MOST_LEFT_OUT: Final = 2
# The memory for counts, of about so many bytes for each value or bar.
_BYTES: Final = 20_000_000
_BYTES_OF_VALUE: Final = 100
# A range with more of them must not displace those of others.
_BYTES_OF_ONE: Final = _BYTES // 10
# The memory of a query, whose filters are at most as long as the target of a request.
_BYTES_OF_QUERY: Final = 16_000


@dataclass(frozen=True, slots=True)
class WholeHours:
    """The counts of the matching events of the whole hours of a range.

    `sums` has none of the days in `left_out`, which have no table.
    """

    sums: EventSums
    left_out: Sequence[int] = ()


class RememberedDays:
    """The counts of whole hours that this process has added up; those used least are forgotten."""

    def __init__(self) -> None:
        self._known: Lru[tuple[WholeHours, int]] = Lru(_BYTES, _BYTES_OF_QUERY)

    def find(self, query: EventQuery, size: int) -> tuple[WholeHours, int] | None:
        """Return the counts in bars of this size, and how many events of any kind the days had."""
        return self._known.find((query, size))

    def keep(self, query: EventQuery, counted: WholeHours, total: int) -> None:
        """Remember the counts of a range whose days have `total` events of any kind."""
        key, size = (query, counted.sums.size), counted.sums.values * _BYTES_OF_VALUE
        if size > _BYTES_OF_ONE:
            self._known.drop(key)
        else:
            self._known.keep(key, (counted, total), size, math.inf)


async def count_whole_hours(
    cluster: Cluster,
    remembered: RememberedDays,
    query: EventQuery,
    retention: Retention,
    size: int,
) -> WholeHours | None:
    """Count the events of a query, which has whole hours, in bars of `size` microseconds.

    All hours are of past days that retention has not reached. Returns `None` if counting the
    matching events together with others is faster.
    """
    every = query_of(query.repository, _days_of(query))
    known = remembered.find(query, size)
    if known is not None:
        counted, total = known
        if await count_events(cluster, every, retention) == total:
            return counted
    if not await _is_worthwhile(cluster, query, retention):
        return None
    found = await read_current(cluster, every, retention)
    tables = [table for table in found.tables if table.parts is not None]
    too_large = [table.day for table in found.tables if table.parts is None]
    left_out = sorted([*found.missing, *too_large])
    if len(left_out) > _MOST_LEFT_OUT:
        # If there are further events since, the days never again have `found.total`.
        counted = WholeHours(await _count(cluster, query, retention, size))
    else:
        counted = WholeHours(await _add_up(query, tables, size), left_out)
    # A refresh will soon make the missing tables.
    if counted.left_out == too_large or not counted.left_out:
        remembered.keep(query, counted, found.total)
    return counted


def _days_of(query: EventQuery) -> range:
    start, end = to_microseconds(query.received_from), to_microseconds(query.received_to)
    return range(start // DAY_MICROSECONDS, -(-end // DAY_MICROSECONDS))


async def _is_worthwhile(cluster: Cluster, query: EventQuery, retention: Retention) -> bool:
    """Return whether so many events match that adding up tables is faster than counting them."""
    every, wider = every_of(query), without_exclusions(query)
    searches = [count_search(cluster, every, retention, most=WORTHWHILE)]
    if wider != every:
        searches.append(count_search(cluster, wider, retention, most=_WORTHWHILE_MATCHES))
    answers = await cluster.connection.search_many(searches)
    before, *matches = (each["hits"]["total"]["value"] for each in answers)
    return before >= WORTHWHILE and all(each >= _WORTHWHILE_MATCHES for each in matches)


async def _add_up(query: EventQuery, tables: Sequence[DayTable], size: int) -> EventSums:
    sums = EventSums(size)
    conditions = conditions_of(query)
    start, end = (
        to_microseconds(each) // HOUR_MICROSECONDS
        for each in (query.received_from, query.received_to)
    )
    yielder = LoopYielder()
    for table in tables:
        first = table.day * HOURS_A_DAY
        hours = range(max(start - first, 0), min(end - first, HOURS_A_DAY))
        sums.add_table(table, conditions, hours)
        await yielder.yield_if_due()
    return sums


async def _count(cluster: Cluster, query: EventQuery, retention: Retention, size: int) -> EventSums:
    """Count the matching events one by one."""
    body = count_facets(make_query(query, retention), size)
    search = replace(count_search(cluster, query, retention), body=body)
    # It may take longer than one of several nodes has otherwise.
    (answer,) = await cluster.connection.search_many([search], timeouts=READING)
    sums = EventSums(size)
    sums.add_answer(answer)
    return sums
