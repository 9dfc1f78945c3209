"""Counts of whole days of the event log: counted once, then stored.

No writer maintains these counts. The first aggregate over a past day counts its events and stores
the result; later ones only compare the number of events. Events never change, and only retention
deletes them. So a day that retention has not reached, with as many events as were counted, has
exactly those events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from indexing.errors import StoreError
from indexing.health.window import DAY_MICROSECONDS, day_of
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.failures import describe
from indexing.store.elasticsearch.client.places import Place, Search
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import (
    FACETS,
    count_bars,
    count_facets,
    make_query,
    read_bars,
    slices_of,
)
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.timestamps import from_microseconds
from indexing.yielding import LoopYielder

HOUR_MICROSECONDS: Final = 3_600_000_000
# These documents are in the index of days.
KIND: Final = "events"

# With fewer events, counting all of them is faster than reading and adding up stored counts.
_WORTHWHILE: Final = 250_000
# A day with more values of a facet, or with longer counts as JSON, is not stored: a range may have
# many days, and all of them are read at once.
_MOST_VALUES: Final = 10_000
_MOST_BYTES: Final = 64 * 1024
# Days to read or to count by one request.
_READ_AT_ONCE: Final = 64
_COUNTED_AT_ONCE: Final = 8
_HOURS_A_DAY: Final = 24
# The longest that a read waits until counts are stored.
_STORING_SECONDS: Final = 0.3
# Increased with every change of the stored counts.
_FORMAT: Final = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DayCounts:
    """How many events a UTC day has: in each hour, and with each value of each facet.

    `facets` has the values of each facet, then their counts in the same order. It is `None` if they
    are too many to be stored.
    """

    day: int
    hours: Sequence[int]
    facets: Mapping[str, tuple[Sequence[Any], Sequence[int]]] | None

    @property
    def total(self) -> int:
        return sum(self.hours)

    def encode(self) -> bytes:
        """Return the counts as JSON."""
        return orjson.dumps({"day": self.day, "hours": self.hours, "facets": self.facets})


async def read_days(
    cluster: Cluster, query: EventQuery, retention: Retention
) -> list[DayCounts] | None:
    """Return the counts of each day of a query, which has whole days and no filters, oldest first.

    Days without events are left out. Retention must not have reached any of the days. Returns
    `None` if counting all events is faster, or no counts can be stored.
    """
    total = await cluster.connection.count(
        slices_of(cluster, query),
        make_query(query, retention),
        routing=routing_of(query.repository),
        # Those of a read.
        timeouts=None,
    )
    if total < _WORTHWHILE:
        return None
    stored = await _read_stored(cluster, query)
    is_current = sum(each.total for each in stored.values()) == total
    if not is_current and not await _count_changed(cluster, query, retention, stored):
        return None
    return [stored[day] for day in sorted(stored)]


async def _read_stored(cluster: Cluster, query: EventQuery) -> dict[int, DayCounts]:
    found: dict[int, DayCounts] = {}
    yielder = LoopYielder()
    every = _days_of(query)
    for start in range(0, len(every), _READ_AT_ONCE):
        days = every[start : start + _READ_AT_ONCE]
        places = [_place_of(cluster, query, day) for day in days]
        for day, document in zip(days, await cluster.connection.get_many(places), strict=True):
            # Another release may have stored counts of another format.
            if document is not None and document.source.get("format") == _FORMAT:
                found[day] = DayCounts(**orjson.loads(document.source["counts"]))
            await yielder.yield_if_due()
    return found


async def _count_changed(
    cluster: Cluster, query: EventQuery, retention: Retention, stored: dict[int, DayCounts]
) -> bool:
    """Count and store the days whose stored counts are missing or old; replace them in `stored`.

    Returns false if they cannot be stored: then each later read would count all these days again.
    """
    if not cluster.day_count_pause.is_over:
        return False
    body = count_bars(make_query(query, retention), DAY_MICROSECONDS)
    index, routing = slices_of(cluster, query), routing_of(query.repository)
    answer = await cluster.connection.search(index, body, routing=routing)
    totals = read_bars(answer, DAY_MICROSECONDS)
    # An operator may have deleted the index of some days.
    for day in stored.keys() - totals.keys():
        del stored[day]
    changed = [n for n in totals if n not in stored or stored[n].total != totals[n]]
    for start in range(0, len(changed), _COUNTED_AT_ONCE):
        days = changed[start : start + _COUNTED_AT_ONCE]
        searches = [_search_of(cluster, _query_of(query, day), retention) for day in days]
        answers = await cluster.connection.search_many(searches)
        counted = [_counts_of(day, each) for day, each in zip(days, answers, strict=True)]
        stored |= {each.day: each for each in counted}
        if not await _store(cluster, query, counted):
            cluster.day_count_pause.begin()
            return False
    return True


def _search_of(cluster: Cluster, query: EventQuery, retention: Retention) -> Search:
    body = count_facets(make_query(query, retention), HOUR_MICROSECONDS, _MOST_VALUES)
    return Search(slices_of(cluster, query), body, routing_of(query.repository))


def _counts_of(day: int, answer: Mapping[str, Any]) -> DayCounts:
    by_hour = read_bars(answer, HOUR_MICROSECONDS)
    first = day * _HOURS_A_DAY
    hours = [by_hour.get(first + number, 0) for number in range(_HOURS_A_DAY)]
    # If the index has been deleted since the days were found, there are no aggregations.
    found = answer.get("aggregations", {name: {"buckets": ()} for name in FACETS})
    if any(found[name].get("sum_other_doc_count") for name in FACETS):
        return DayCounts(day, hours, None)
    facets: dict[str, tuple[list[Any], list[int]]] = {}
    for name in FACETS:
        buckets = found[name]["buckets"]
        facets[name] = ([each["key"] for each in buckets], [each["doc_count"] for each in buckets])
    counts = DayCounts(day, hours, facets)
    return counts if len(counts.encode()) <= _MOST_BYTES else DayCounts(day, hours, None)


async def _store(cluster: Cluster, query: EventQuery, counted: Sequence[DayCounts]) -> bool:
    """Store counts for later requests; return whether the cluster accepted them."""
    operations = []
    for each in counted:
        place = _place_of(cluster, query, each.day)
        source = {
            "repository_id": place.routing,
            "kind": KIND,
            "place": place.id,
            "day": each.day,
            "format": _FORMAT,
            # As text: it is never searched, and a node need not read what is in it.
            "counts": each.encode().decode(),
        }
        operations.append(Operation("index", place.index, place.id, place.routing, source))
    lines = b"".join(operation.encode() for operation in operations)
    reason = ""
    try:
        # A read should not wait for a cluster that puts off writes.
        async with asyncio.timeout(_STORING_SECONDS):
            answer = await cluster.connection.request("POST", "/_bulk", lines)
        if answer["errors"]:
            refused = (each["index"].get("error") for each in answer["items"])
            reason = describe(next(filter(None, refused)))
    except (StoreError, TimeoutError) as error:
        reason = str(error) or "the cluster takes too long"
    if reason:
        _log.warning("counts of days of the event log cannot be stored: %s", reason)
    return not reason


def _place_of(cluster: Cluster, query: EventQuery, day: int) -> Place:
    routing = routing_of(query.repository)
    return Place(cluster.layout.days, f"{KIND}-{routing}-{day}", routing)


def _days_of(query: EventQuery) -> range:
    return range(day_of(query.received_from), day_of(query.received_to))


def _query_of(query: EventQuery, day: int) -> EventQuery:
    start, end = (from_microseconds(each * DAY_MICROSECONDS) for each in (day, day + 1))
    return EventQuery(query.repository, start, end)
