"""Reads and stores the tables of past days of the event log.

No writer maintains them: `event_day_refresh` makes them. A reader compares the number of events. A
day that retention has not reached, with as many events as its table, has exactly those events,
because events never change and only retention deletes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from indexing.health.window import day_of
from indexing.models.events import EventQuery
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import WRITING, Timeouts
from indexing.store.elasticsearch.client.places import Place, Search
from indexing.store.elasticsearch.client.scanning import GROUPS, groups_body
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_conditions import PULL_REQUEST
from indexing.store.elasticsearch.event_query import (
    RECEIVED_AT,
    count_bars,
    make_query,
    read_bars,
    slices_of,
)
from indexing.store.elasticsearch.event_tables import COMBINED, HOURS_A_DAY, DayTable, TableMaker
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.timestamps import DAY_MICROSECONDS, HOUR_MICROSECONDS, from_microseconds
from indexing.yielding import LoopYielder

# These documents are in the index of days. Earlier releases stored others of this kind.
KIND: Final = "events"

# A day with more events, more combinations and pull requests, or a longer table is counted each
# time: a range may have many days, and all of their tables are read at once.
_MOST_EVENTS: Final = 250_000
_MOST_VALUES: Final = 10_000
_MOST_BYTES: Final = 256 * 1024
# Decoding an answer blocks the event loop.
_READ_AT_ONCE: Final = 32
_COUNTED_AT_ONCE: Final = 8_000
_DOCUMENTS_A_PAGE: Final = 1_000
# Increased with every change of the tables.
_FORMAT: Final = 3
_HOUR: Final = "hour"
_GROUPED_BY: Final[Sequence[Mapping[str, Any]]] = (
    {_HOUR: {"histogram": {"field": RECEIVED_AT, "interval": HOUR_MICROSECONDS}}},
    *(
        {name: {"terms": {"field": name, "missing_bucket": True}}}
        for name in (*COMBINED, PULL_REQUEST)
    ),
)


@dataclass(frozen=True, slots=True)
class CurrentTables:
    """The tables of a range of days that are up to date, and the days without one.

    `total` is the number of events of all of these days.
    """

    tables: Sequence[DayTable]
    missing: Sequence[int]
    total: int


def query_of(repository: RepositoryName, days: range) -> EventQuery:
    """Return the query for all events of these days."""
    start, end = (from_microseconds(day * DAY_MICROSECONDS) for day in (days.start, days.stop))
    return EventQuery(repository, start, end)


def count_search(
    cluster: Cluster, query: EventQuery, retention: Retention, *, most: int | None = None
) -> Search:
    """Return the search for the number of matching events, which may stop counting at `most`.

    All such searches of a repository go to the same copy, if it exists: so the number only grows.
    """
    body = {"size": 0, "track_total_hits": most or True, "query": make_query(query, retention)}
    routing = routing_of(query.repository)
    return Search(slices_of(cluster.layout, query), body, routing, copy=routing)


async def count_events(
    cluster: Cluster, query: EventQuery, retention: Retention, timeouts: Timeouts | None = None
) -> int:
    """Return the number of matching events, by `count_search`."""
    search = count_search(cluster, query, retention)
    (answer,) = await cluster.connection.search_many([search], timeouts=timeouts)
    total: int = answer["hits"]["total"]["value"]
    return total


async def read_current(cluster: Cluster, every: EventQuery, retention: Retention) -> CurrentTables:
    """Read the tables of the days of a query for all events of whole days.

    Retention must not have reached any of the days.
    """
    days = range(day_of(every.received_from), day_of(every.received_to))
    tables = await read_tables(cluster, every.repository, days)
    # Counted after the tables were read: so no day has fewer events than its table, and only
    # tables that are all up to date have as many together.
    total = await count_events(cluster, every, retention)
    if sum(table.of for table in tables) == total:
        return CurrentTables(tables, (), total)
    body = count_bars(make_query(every, retention), DAY_MICROSECONDS)
    routing = routing_of(every.repository)
    search = Search(slices_of(cluster.layout, every), body, routing, copy=routing)
    (answer,) = await cluster.connection.search_many([search])
    totals = read_bars(answer, DAY_MICROSECONDS)
    current = [table for table in tables if totals.get(table.day) == table.of]
    missing = totals.keys() - {table.day for table in current}
    return CurrentTables(current, sorted(missing), sum(totals.values()))


async def read_tables(
    cluster: Cluster,
    repository: RepositoryName,
    days: Sequence[int],
    timeouts: Timeouts | None = None,
) -> list[DayTable]:
    """Return the tables of these days, whether they are up to date or not."""
    found = []
    yielder = LoopYielder()
    for start in range(0, len(days), _READ_AT_ONCE):
        some = days[start : start + _READ_AT_ONCE]
        places = [_place_of(cluster, repository, day) for day in some]
        documents = await cluster.connection.get_many(places, timeouts=timeouts)
        for day, document in zip(some, documents, strict=True):
            # Another release may have stored a table of another format.
            if document is not None and document.source.get("format") == _FORMAT:
                source = document.source
                found.append(DayTable.decode(day, source["of"], source["table"]))
            await yielder.yield_if_due()
    return found


async def make_table(
    cluster: Cluster, repository: RepositoryName, day: int, total: int, retention: Retention
) -> DayTable | None:
    """Make the table of a day with `total` events; `None` if it gets further ones meanwhile."""
    too_large = DayTable(day, total, None)
    if total > _MOST_EVENTS:
        return too_large
    maker = TableMaker()
    async for buckets in _scan_groups(cluster, repository, day, retention):
        yielder = LoopYielder()
        for bucket in buckets:
            key = bucket["key"]
            hour = round(key[_HOUR] / HOUR_MICROSECONDS) % HOURS_A_DAY
            combination = tuple(key[name] for name in COMBINED)
            maker.add(combination, hour, key[PULL_REQUEST], bucket["doc_count"])
            await yielder.yield_if_due()
        if maker.values > _MOST_VALUES:
            return too_large
    # All searches are of the same copy, whose events only grow in number: so these are the events
    # that there were before.
    return maker.make(day) if maker.of == total else None


async def store_table(cluster: Cluster, repository: RepositoryName, table: DayTable) -> None:
    """Store the table of a day in place of what is stored for this day."""
    place = _place_of(cluster, repository, table.day)
    # In a thread, because compressing the largest tables takes longer than other tasks may wait.
    text = await asyncio.to_thread(table.encode)
    source = {
        "repository_id": place.routing,
        "kind": KIND,
        "place": place.id,
        "day": table.day,
        "format": _FORMAT,
        "of": table.of,
        # As text: it is never searched, and a node need not read what is in it.
        "table": text if text is None or len(text) <= _MOST_BYTES else None,
    }
    operations = [
        Operation("delete", place.index, each, place.routing)
        for each in await _find_earlier(cluster, place, table.day)
    ]
    operations.append(Operation("index", place.index, place.id, place.routing, source))
    await bulk.send(cluster.connection, operations, visible=False)


def _place_of(cluster: Cluster, repository: RepositoryName, day: int) -> Place:
    routing = routing_of(repository)
    return Place(cluster.layout.days, f"{KIND}-{routing}-{day}-table", routing)


async def _find_earlier(cluster: Cluster, place: Place, day: int) -> list[str]:
    """Return the ids of what an earlier release stored for a day."""
    filters = [{"term": {"repository_id": place.routing}}, {"term": {"kind": KIND}}]
    filters.append({"term": {"day": day}})
    body = {"size": _DOCUMENTS_A_PAGE, "query": {"bool": {"filter": filters}}, "_source": False}
    answer = await cluster.connection.search(
        place.index, body, routing=place.routing, timeouts=WRITING
    )
    return [hit["_id"] for hit in answer["hits"]["hits"] if hit["_id"] != place.id]


async def _scan_groups(
    cluster: Cluster, repository: RepositoryName, day: int, retention: Retention
) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
    """Yield the groups of equal events of a day: those of an hour with the same values."""
    every = query_of(repository, range(day, day + 1))
    by_hour = count_bars(make_query(every, retention), HOUR_MICROSECONDS)
    search = replace(count_search(cluster, every, retention), body=by_hour)
    (answer,) = await cluster.connection.search_many([search], timeouts=WRITING)
    for hours in _group_hours(read_bars(answer, HOUR_MICROSECONDS)):
        start, end = (from_microseconds(n * HOUR_MICROSECONDS) for n in (hours.start, hours.stop))
        query = make_query(EventQuery(repository, start, end), retention)
        after: Mapping[str, Any] | None = None
        while True:
            body = groups_body(query, _GROUPED_BY, size=_COUNTED_AT_ONCE, after=after)
            search = replace(search, body=body)
            (answer,) = await cluster.connection.search_many([search], timeouts=WRITING)
            # If the index has been deleted meanwhile, there are no groups.
            found = answer.get("aggregations", {}).get(GROUPS, {"buckets": ()})
            yield found["buckets"]
            if len(found["buckets"]) < _COUNTED_AT_ONCE:
                break
            after = found["after_key"]


def _group_hours(counts: Mapping[int, int]) -> Iterator[range]:
    """Yield ranges of hours with few events each, because each page of groups reads all events."""
    hours = sorted(counts)
    first, total = 0, 0
    for number, hour in enumerate(hours):
        if total and total + counts[hour] > _COUNTED_AT_ONCE:
            yield range(hours[first], hour)
            first, total = number, 0
        total += counts[hour]
    if total:
        yield range(hours[first], hours[-1] + 1)
