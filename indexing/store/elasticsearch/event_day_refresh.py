"""Counts the past days of the event log that have new events, before anyone asks for them.

Each event says when it arrived, whoever wrote it. So a record of the last refresh shows which days
have new events since, also those of a loader that was killed. Correctness does not depend on this:
readers compare the number of events of the days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from indexing.health.window import DAY_MICROSECONDS, day_of
from indexing.models.events import EventQuery
from indexing.names import RepositoryName
from indexing.store.elasticsearch import event_days
from indexing.store.elasticsearch.arrivals import SETTLING_SECONDS, STAMP
from indexing.store.elasticsearch.client.connection import WRITING, ConflictError, Document
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.client.scanning import scan_groups
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_day_counts import (
    HOURS_A_DAY,
    DayCounts,
    Value,
    read_values,
    store_counts,
    values_search,
)
from indexing.store.elasticsearch.event_days import count_days, count_search
from indexing.store.elasticsearch.event_filtering import frequent_values
from indexing.store.elasticsearch.event_query import TIME
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.repositories import list_repositories
from indexing.timestamps import from_microseconds, to_microseconds

# Older days are counted when they are read: otherwise the first refresh would search all events.
_DAYS: Final = 92
# The record of the last refresh, in the control index.
_DOCUMENT: Final = "event-days"
_DAYS_A_PAGE: Final = 1_000
_REPOSITORIES_AT_ONCE: Final = 100
# The counts in one answer; a cluster refuses more than 65,536, which no single value has.
_BUCKETS: Final = 15_000
# The documents to store by one request.
_STORED_AT_ONCE: Final = 16
_STORING_SECONDS: Final = 20.0


async def refresh_event_counts(cluster: Cluster, now: datetime) -> int:
    """Count the past days of large logs that have new events; return their number.

    An interrupted call is repeated by the next one.
    """
    connection, layout = cluster.connection, cluster.layout
    last = await connection.get(layout.control, _DOCUMENT)
    today = day_of(now)
    retention = await cluster.control.read_retention()
    counted = 0
    for name, days in (await _find_changed(cluster, last, today, retention)).items():
        for day in days:
            if not await _count(cluster, name, day, retention):
                return counted
            counted += 1
    until = to_microseconds(now) - int(SETTLING_SECONDS * 1_000_000)
    record = {"kind": _DOCUMENT, "until": until, "day": today}
    version = None if last is None else last.version
    # Another process may have done the same.
    with suppress(ConflictError):
        await connection.put(layout.control, _DOCUMENT, record, over=version, visible=False)
    return counted


async def _find_changed(
    cluster: Cluster, last: Document | None, today: int, retention: Retention
) -> dict[RepositoryName, list[int]]:
    """Return the days of large logs that have new events or are past since the last refresh."""
    first = max(retention.final_day + 1, today - _DAYS)
    filters: list[dict[str, Any]] = [
        {"range": {TIME: {"gte": first * DAY_MICROSECONDS, "lt": today * DAY_MICROSECONDS}}}
    ]
    if last is not None:
        since = [
            {"range": {STAMP: {"gte": last.source["until"]}}},
            {"range": {TIME: {"gte": last.source["day"] * DAY_MICROSECONDS}}},
        ]
        filters.append({"bool": {"should": since, "minimum_should_match": 1}})
    days: dict[str, list[int]] = defaultdict(list)
    by_day = {"day": {"histogram": {"field": TIME, "interval": DAY_MICROSECONDS}}}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.events,
        {"bool": {"filter": filters}},
        ("repository_id", by_day),
        size=_DAYS_A_PAGE,
    ):
        for each in buckets:
            day = round(each["key"]["day"] / DAY_MICROSECONDS)
            days[each["key"]["repository_id"]].append(day)
    large = await _find_large(cluster, list(days))
    known = [each.name for each in await list_repositories(cluster)] if large else []
    return {name: sorted(days[routing_of(name)]) for name in known if routing_of(name) in large}


async def _find_large(cluster: Cluster, routings: Sequence[str]) -> set[str]:
    """Return the repositories with enough events for their days to be stored."""
    found: set[str] = set()
    for start in range(0, len(routings), _REPOSITORIES_AT_ONCE):
        some = routings[start : start + _REPOSITORIES_AT_ONCE]
        searches = [
            Search(
                cluster.layout.events,
                {
                    "size": 0,
                    "track_total_hits": event_days.WORTHWHILE,
                    "query": {"term": {"repository_id": routing}},
                },
                routing,
            )
            for routing in some
        ]
        answers = await cluster.connection.search_many(searches, timeouts=WRITING)
        for routing, answer in zip(some, answers, strict=True):
            if answer["hits"]["total"]["value"] >= event_days.WORTHWHILE:
                found.add(routing)
    return found


async def _count(cluster: Cluster, name: RepositoryName, day: int, retention: Retention) -> bool:
    """Count a day and its frequent values; return whether the cluster accepted the counts."""
    counted = await count_days(cluster, name, [day], retention)
    if counted is None:
        return False
    (whole,) = counted
    start, end = (from_microseconds(each * DAY_MICROSECONDS) for each in (day, day + 1))
    count_all = count_search(cluster, EventQuery(name, start, end), retention)
    outcomes: list[DayCounts] = []
    for some in _group(whole):
        found = await _count_values(cluster, name, whole, retention, some, count_all)
        if found is None:
            return cluster.day_count_pause.is_over
        outcomes += [each for each in found if some[0].field == "outcome"]
    for outcome in outcomes:
        for some in _group(outcome):
            found = await _count_values(cluster, name, whole, retention, some, count_all)
            if found is None:
                return cluster.day_count_pause.is_over
    return True


async def _count_values(
    cluster: Cluster,
    name: RepositoryName,
    whole: DayCounts,
    retention: Retention,
    values: Sequence[Value],
    count_all: Search,
) -> list[DayCounts] | None:
    """Count values of a day, and store the counts.

    Returns `None` if the cluster accepts none, or the day has new events: the next refresh counts
    it again.
    """
    search = values_search(cluster, name, whole.day, retention, values)
    # The day must have the same events before and after.
    before, answer, after = await cluster.connection.search_many(
        [count_all, search, count_all], in_order=True, timeouts=WRITING
    )
    if any(each["hits"]["total"]["value"] != whole.total for each in (before, after)):
        return None
    found = read_values(whole.day, answer, values, whole.total)
    for first in range(0, len(found), _STORED_AT_ONCE):
        stored = found[first : first + _STORED_AT_ONCE]
        if not await store_counts(cluster, name, stored, _STORING_SECONDS):
            return None
    return found


def _group(counts: DayCounts) -> Iterator[list[Value]]:
    """Yield the frequent values of these events: values of one field that one search can count."""
    known = {name: len(counts.count_values(name)) for name in counts.fields or ()}
    for name in known:
        if counts.value is not None and name == counts.value.field:
            continue
        by_value = counts.count_values(name)
        group: list[Value] = []
        size = 0
        for value in frequent_values(counts, name):
            # Each of its events has one value of each field.
            buckets = HOURS_A_DAY + sum(min(by_value[value.value], each) for each in known.values())
            if group and size + buckets > _BUCKETS:
                yield group
                group, size = [], 0
            group.append(value)
            size += buckets
        if group:
            yield group
