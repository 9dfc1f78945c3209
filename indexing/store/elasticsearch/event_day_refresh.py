"""Makes the tables of the past days of the event log that have new events.

Each event says when it arrived, whoever wrote it. So a record of the last refresh shows which days
have new events since, also those of a loader that was killed. Correctness does not depend on this:
readers compare the number of events of the days.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self

from indexing.errors import StoreError
from indexing.health.window import day_of
from indexing.names import RepositoryName
from indexing.store.elasticsearch import event_whole_days
from indexing.store.elasticsearch.arrivals import STAMP
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.client.scanning import scan_groups
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_days import (
    count_events,
    make_table,
    query_of,
    read_tables,
    store_table,
)
from indexing.store.elasticsearch.event_query import RECEIVED_AT
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.repositories import list_repositories
from indexing.timestamps import DAY_MICROSECONDS, to_microseconds
from indexing.yielding import GoesOn

# Events of older days are counted each time: otherwise the first refresh would search all events.
_DAYS: Final = 92
# Events of this time before the last refresh are looked at again: the clocks of the processes
# differ, and events become visible a few seconds after their stamp.
_MARGIN: Final = 600 * 1_000_000
# A refresh ends after so many failures one after another: then it is hardly because of the days.
_MOST_FAILURES: Final = 3
# The record of the last refresh, in the control index.
_DOCUMENT: Final = "event-days"
_DAYS_A_PAGE: Final = 1_000
_REPOSITORIES_AT_ONCE: Final = 100
# Increased if all days have to be looked at again.
_FORMAT: Final = 2

_log = logging.getLogger(__name__)

# The days to count, by the routing of their repository.
_Days = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Record:
    """The record of the last refresh.

    Of the repositories in `large`, all events that arrived before `until` are counted if they are
    older than `day`, except on the days in `failed`. `until` is None if no refresh is complete yet.
    """

    until: int | None = None
    day: int = 0
    large: frozenset[str] = frozenset()
    failed: _Days = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document | None) -> Self:
        if document is None:
            return cls()
        source = document.source
        # An earlier release counted days, but made no tables of them.
        if source.get("format") != _FORMAT:
            return cls()
        return cls(source["until"], source["day"], frozenset(source["large"]), source["failed"])

    def encode(self) -> dict[str, Any]:
        return {
            "kind": _DOCUMENT,
            "format": _FORMAT,
            "until": self.until,
            "day": self.day,
            "large": sorted(self.large),
            "failed": self.failed,
        }


async def refresh_event_counts(cluster: Cluster, now: datetime, goes_on: GoesOn) -> int:
    """Count the past days of large logs that have new events; return their number.

    An interrupted call is continued by the next one. A day that cannot be counted is tried again by
    the next one, after all others.
    """
    connection, control = cluster.connection, cluster.layout.control
    last = await connection.get(control, _DOCUMENT)
    record = _Record.of(last)
    today = day_of(now)
    retention = await cluster.control.read_retention()
    days = range(max(retention.final_day + 1, today - _DAYS), today)
    due, large = await _find_due(cluster, record, days)
    counted = failures = 0
    failed: dict[str, list[int]] = defaultdict(list)
    for name, day in due:
        if not await goes_on():
            return counted
        try:
            counted += await _count(cluster, name, day, retention)
        except StoreError as error:
            _log.warning("a day of the event log cannot be counted", extra={"reason": str(error)})
            failed[routing_of(name)].append(day)
            failures += 1
            if failures == _MOST_FAILURES:
                break
        else:
            failures = 0
    if failures == _MOST_FAILURES:
        # The rest is found again by the same record.
        new = replace(record, failed=_join(record.failed, failed))
    else:
        until = to_microseconds(now) - _MARGIN
        new = _Record(until, today, record.large | large, failed)
    version = None if last is None else last.version
    # Another process may have done the same.
    with suppress(ConflictError):
        await connection.put(control, _DOCUMENT, new.encode(), over=version, visible=False)
    return counted


def _join(one: _Days, other: _Days) -> _Days:
    return {
        routing: sorted({*one.get(routing, ()), *other.get(routing, ())})
        for routing in one.keys() | other.keys()
    }


async def _find_due(
    cluster: Cluster, record: _Record, days: range
) -> tuple[list[tuple[RepositoryName, int]], frozenset[str]]:
    """Return the days of large logs to count, and the repositories with such logs among them.

    These are the days with events that are new or past since the last refresh, all days of logs
    that have become large, and last the days that failed before.
    """
    since: list[dict[str, Any]] = []
    if record.until is not None:
        new = [
            {"range": {STAMP: {"gte": record.until}}},
            {"range": {RECEIVED_AT: {"gte": record.day * DAY_MICROSECONDS}}},
        ]
        since.append({"bool": {"should": new, "minimum_should_match": 1}})
    found = await _find_days(cluster, days, since)
    large = await _find_large(cluster, list(found))
    found = {routing: found[routing] for routing in large}
    if record.until is not None and (grown := large - record.large):
        of_grown = {"terms": {"repository_id": sorted(grown)}}
        found |= await _find_days(cluster, days, [of_grown])
    named = found.keys() | record.failed.keys()
    repositories = await list_repositories(cluster) if named else []
    known = {routing_of(each.name): each.name for each in repositories}
    due = {
        (known[routing], day): day in record.failed.get(routing, ())
        for routing in sorted(named & known.keys())
        for day in sorted({*found.get(routing, ()), *record.failed.get(routing, ())})
        if day in days
    }
    return sorted(due, key=due.__getitem__), large


async def _find_days(
    cluster: Cluster, days: range, clauses: Sequence[Mapping[str, Any]]
) -> dict[str, list[int]]:
    """Return those of the days on which a repository has events that match the clauses."""
    bounds = {"gte": days.start * DAY_MICROSECONDS, "lt": days.stop * DAY_MICROSECONDS}
    query = {"bool": {"filter": [{"range": {RECEIVED_AT: bounds}}, *clauses]}}
    by_day = {"day": {"histogram": {"field": RECEIVED_AT, "interval": DAY_MICROSECONDS}}}
    found: dict[str, list[int]] = defaultdict(list)
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.events,
        query,
        ("repository_id", by_day),
        size=_DAYS_A_PAGE,
    ):
        for each in buckets:
            day = round(each["key"]["day"] / DAY_MICROSECONDS)
            found[each["key"]["repository_id"]].append(day)
    return found


async def _find_large(cluster: Cluster, routings: Sequence[str]) -> frozenset[str]:
    """Return the repositories with enough events for tables of their days."""
    found: set[str] = set()
    for start in range(0, len(routings), _REPOSITORIES_AT_ONCE):
        some = routings[start : start + _REPOSITORIES_AT_ONCE]
        searches = [
            Search(
                cluster.layout.events,
                {
                    "size": 0,
                    "track_total_hits": event_whole_days.WORTHWHILE,
                    "query": {"term": {"repository_id": routing}},
                },
                routing,
            )
            for routing in some
        ]
        answers = await cluster.connection.search_many(searches, timeouts=WRITING)
        for routing, answer in zip(some, answers, strict=True):
            if answer["hits"]["total"]["value"] >= event_whole_days.WORTHWHILE:
                found.add(routing)
    return frozenset(found)


async def _count(cluster: Cluster, name: RepositoryName, day: int, retention: Retention) -> bool:
    """Make the table of a day; return false if the stored one is up to date.

    If the day gets new events meanwhile, the next refresh makes it again.

    Raises:
        StoreUnavailableError: the cluster accepts no tables.
    """
    tables = await read_tables(cluster, name, [day], WRITING)
    every = query_of(name, range(day, day + 1))
    total = await count_events(cluster, every, retention, WRITING)
    if [each.of for each in tables] == [total]:
        return False
    table = await make_table(cluster, name, day, total, retention)
    if table is not None:
        await store_table(cluster, name, table)
    return True
