"""Reads the counts of whole days of the event log: counted once, then stored.

No writer maintains these counts. `event_day_refresh` counts days that have new events. If it has
not run yet, the first aggregate over such a day counts it. Every aggregate compares the number of
events: a day that retention has not reached, with as many events as were counted, has exactly
those events, because events never change and only retention deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from indexing.health.window import DAY_MICROSECONDS, day_of
from indexing.models.events import EventQuery
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.connection import Timeouts
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_day_counts import (
    DayCounts,
    Value,
    counts_of,
    place_of,
    read_counts,
    search_of,
    store_counts,
)
from indexing.store.elasticsearch.event_query import (
    count_bars,
    every_of,
    make_query,
    read_bars,
    slices_of,
    without_exclusions,
)
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.yielding import LoopYielder

# With fewer events, counting all of them is faster than reading and adding up stored counts.
WORTHWHILE: Final = 250_000
# The same for events that match the filters of a query.
_WORTHWHILE_MATCHES: Final = 50_000
# Days to read or to count by one request.
_READ_AT_ONCE: Final = 64
_COUNTED_AT_ONCE: Final = 4


async def read_days(
    cluster: Cluster, query: EventQuery, retention: Retention
) -> list[DayCounts] | None:
    """Return the counts of all events of each day of a query, which has whole days, oldest first.

    Days without events are left out. Retention must not have reached any of the days. Returns
    `None` if counting the matching events is faster, or no counts can be stored.
    """
    every, wider = every_of(query), without_exclusions(query)
    searches = [count_search(cluster, every, retention)]
    if wider != every:
        searches.append(count_search(cluster, wider, retention, most=_WORTHWHILE_MATCHES))
    answers = await cluster.connection.search_many(searches)
    before, *matches = (each["hits"]["total"]["value"] for each in answers)
    if before < WORTHWHILE or any(each < _WORTHWHILE_MATCHES for each in matches):
        return None
    days = range(day_of(query.received_from), day_of(query.received_to))
    found = await read_stored(cluster, query.repository, [(day, None) for day in days])
    stored = {each.day: each for each in found}
    # Counted after the days were read: so no day has more events than it is counted with, and only
    # days that are all up to date have as many together.
    total = await count_events(cluster, every, retention)
    is_current = sum(each.total for each in stored.values()) == total
    if not is_current and not await _count_changed(cluster, every, retention, stored):
        return None
    return [stored[day] for day in sorted(stored)]


def count_search(
    cluster: Cluster, query: EventQuery, retention: Retention, *, most: int | None = None
) -> Search:
    """Return the search for the number of matching events, which may stop counting at `most`.

    All such searches of a repository go to the same copy, if it exists: so the number only grows.
    """
    body = {"size": 0, "track_total_hits": most or True, "query": make_query(query, retention)}
    routing = routing_of(query.repository)
    return Search(slices_of(cluster, query), body, routing, copy=routing)


async def count_events(
    cluster: Cluster, query: EventQuery, retention: Retention, timeouts: Timeouts | None = None
) -> int:
    """Return the number of matching events, by `count_search`."""
    search = count_search(cluster, query, retention)
    (answer,) = await cluster.connection.search_many([search], timeouts=timeouts)
    total: int = answer["hits"]["total"]["value"]
    return total


async def read_stored(
    cluster: Cluster, repository: RepositoryName, wanted: Sequence[tuple[int, Value | None]]
) -> list[DayCounts]:
    """Return the stored counts of days, or of their events with a value, without missing ones."""
    found: list[DayCounts] = []
    yielder = LoopYielder()
    for start in range(0, len(wanted), _READ_AT_ONCE):
        some = wanted[start : start + _READ_AT_ONCE]
        places = [place_of(cluster, repository, day, value) for day, value in some]
        documents = await cluster.connection.get_many(places)
        for (day, value), document in zip(some, documents, strict=True):
            counts = read_counts(document, day, value)
            if counts is not None:
                found.append(counts)
            await yielder.yield_if_due()
    return found


async def count_days(
    cluster: Cluster, repository: RepositoryName, days: Sequence[int], retention: Retention
) -> list[DayCounts] | None:
    """Count and store days; `None` if the cluster accepts no counts."""
    found: list[DayCounts] = []
    yielder = LoopYielder()
    for start in range(0, len(days), _COUNTED_AT_ONCE):
        some = days[start : start + _COUNTED_AT_ONCE]
        searches = [search_of(cluster, repository, day, retention) for day in some]
        answers = await cluster.connection.search_many(searches)
        counted = []
        for day, answer in zip(some, answers, strict=True):
            counted.append(counts_of(day, answer))
            await yielder.yield_if_due()
        if not await store_counts(cluster, repository, counted):
            return None
        found += counted
    return found


async def _count_changed(
    cluster: Cluster, query: EventQuery, retention: Retention, stored: dict[int, DayCounts]
) -> bool:
    """Count and store the days whose stored counts are missing or old; replace them in `stored`.

    Returns false if they cannot be stored: then each later read would count all these days again.
    """
    if not cluster.day_count_pause.is_over:
        return False
    body: dict[str, Any] = count_bars(make_query(query, retention), DAY_MICROSECONDS)
    index, routing = slices_of(cluster, query), routing_of(query.repository)
    answer = await cluster.connection.search(index, body, routing=routing)
    totals = read_bars(answer, DAY_MICROSECONDS)
    # An operator may have deleted the index of some days.
    for day in stored.keys() - totals.keys():
        del stored[day]
    changed = [n for n in totals if n not in stored or stored[n].total != totals[n]]
    counted = await count_days(cluster, query.repository, changed, retention)
    stored |= {each.day: each for each in counted or ()}
    return counted is not None
