"""The stored counts of a UTC day of the event log, and the searches that count a day.

A document has the counts of all events of a day. Further ones have those of its events with one
frequent value of a field, such as one outcome. Each says how many events the day had when it was
counted (`of`). Events never change, so documents with the same `of` count the same events.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import orjson

from indexing.errors import StoreError
from indexing.health.window import DAY_MICROSECONDS
from indexing.models.events import EventQuery
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Document
from indexing.store.elasticsearch.client.failures import describe
from indexing.store.elasticsearch.client.places import Place, Search
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import (
    FIELDS,
    count_facets,
    holds_only,
    make_query,
    read_bars,
    slices_of,
)
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.timestamps import from_microseconds

HOUR_MICROSECONDS: Final = 3_600_000_000
HOURS_A_DAY: Final = 24
# These documents are in the index of days.
KIND: Final = "events"

# A day with more values of a field, or with longer counts as JSON, is not stored: a range may have
# many days, and all of them are read at once. Decoding an answer blocks the event loop.
_MOST_VALUES: Final = 4_000
_MOST_BYTES: Final = 64 * 1024
# The longest that a read waits until counts are stored: the cluster may put off writes.
_STORING_SECONDS: Final = 0.3
# Increased with every change of the stored counts.
_FORMAT: Final = 2
_VALUES: Final = "values"
_PREPARED: Final = "prepared"

_log = logging.getLogger(__name__)


class Value(NamedTuple):
    """A value of a field of events; with `outcome`, only of events with this outcome."""

    field: str
    value: Any
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class DayCounts:
    """How many events of a UTC day there are: in each hour, and with each value of each field.

    They are all events of the day, or those with `value`. `of` is the number of all of them.
    `fields` has the values of each field, then their counts in the same order. It is `None` if they
    are too many to be stored.
    """

    day: int
    hours: Sequence[int]
    fields: Mapping[str, tuple[Sequence[Any], Sequence[int]]] | None
    of: int
    value: Value | None = None

    @property
    def total(self) -> int:
        return sum(self.hours)

    def encode(self) -> bytes:
        """Return the counts as JSON."""
        return orjson.dumps({"hours": self.hours, "fields": self.fields, "of": self.of})

    def count_values(self, field: str) -> dict[Any, int]:
        """Return the number of events with each value of a field."""
        values, counts = (self.fields or {}).get(field, ((), ()))
        return dict(zip(values, counts, strict=True))


def place_of(
    cluster: Cluster, repository: RepositoryName, day: int, value: Value | None = None
) -> Place:
    routing = routing_of(repository)
    name = f"{KIND}-{routing}-{day}"
    if value is not None:
        # A digest, because a value may be long.
        name += "-" + hashlib.sha256(orjson.dumps([*value])).hexdigest()[:32]
    return Place(cluster.layout.days, name, routing)


def read_counts(
    document: Document | None, day: int, value: Value | None = None
) -> DayCounts | None:
    """Return the counts in a document; `None` without one, or if it has another format."""
    # Another release may have stored counts of another format.
    if document is None or document.source.get("format") != _FORMAT:
        return None
    return DayCounts(day, value=value, **orjson.loads(document.source["counts"]))


def is_prepared(document: Document | None) -> bool:
    """Return whether all counts of that day by value were stored, too."""
    return document is not None and bool(document.source.get(_PREPARED))


def query_of(repository: RepositoryName, day: int) -> EventQuery:
    """Return the query for all events of a day."""
    start, end = (from_microseconds(each * DAY_MICROSECONDS) for each in (day, day + 1))
    return EventQuery(repository, start, end)


def search_of(
    cluster: Cluster, repository: RepositoryName, day: int, retention: Retention
) -> Search:
    """Return the search that counts a day."""
    query = query_of(repository, day)
    body = count_facets(make_query(query, retention), HOUR_MICROSECONDS, _MOST_VALUES, FIELDS)
    routing = routing_of(repository)
    # The same copy as in all searches of these modules: of one copy, the number only grows.
    return Search(slices_of(cluster, query), body, routing, copy=routing)


def values_search(
    cluster: Cluster,
    repository: RepositoryName,
    day: int,
    retention: Retention,
    values: Sequence[Value],
) -> Search:
    """Return the search that counts the events of a day with each of these values.

    All are of one field and of the same outcome, if any.
    """
    whole = search_of(cluster, repository, day, retention)
    field, _, outcome = values[0]
    named = [{"terms": {field: [each.value for each in values]}}, *outcome_clauses(outcome)]
    by_value = {"terms": {"field": field, "size": len(values)}, "aggs": whole.body["aggs"]}
    body = {
        **whole.body,
        "query": holds_only(whole.body["query"], *named),
        "aggs": {_VALUES: by_value},
    }
    return replace(whole, body=body)


def read_values(
    day: int, answer: Mapping[str, Any], values: Sequence[Value], of: int
) -> list[DayCounts]:
    """Return the counts in an answer to `values_search` that are small enough to be stored."""
    known = {each.value: each for each in values}
    buckets = answer["aggregations"][_VALUES]["buckets"] if "aggregations" in answer else ()
    found = [counts_of(day, {"aggregations": each}, known[each["key"]], of) for each in buckets]
    return [each for each in found if each.fields is not None]


def outcome_clauses(outcome: str | None) -> list[dict[str, Any]]:
    """Return the clauses for events with this outcome, or for all."""
    return [] if outcome is None else [{"term": {"outcome": outcome}}]


def counts_of(
    day: int, answer: Mapping[str, Any], value: Value | None = None, of: int | None = None
) -> DayCounts:
    """Return the counts in an answer to `search_of`, or in a part of one to `values_search`."""
    by_hour = read_bars(answer, HOUR_MICROSECONDS)
    first = day * HOURS_A_DAY
    hours = [by_hour.get(first + number, 0) for number in range(HOURS_A_DAY)]
    total = sum(hours) if of is None else of
    # If the index has been deleted since the days were found, there are no aggregations.
    found = answer.get("aggregations", {name: {"buckets": ()} for name in FIELDS})
    if any(found[name].get("sum_other_doc_count") for name in FIELDS):
        return DayCounts(day, hours, None, total, value)
    fields: dict[str, tuple[list[Any], list[int]]] = {}
    for name in FIELDS:
        buckets = found[name]["buckets"]
        fields[name] = ([each["key"] for each in buckets], [each["doc_count"] for each in buckets])
    counts = DayCounts(day, hours, fields, total, value)
    is_small = len(counts.encode()) <= _MOST_BYTES
    return counts if is_small else DayCounts(day, hours, None, total, value)


async def store_counts(
    cluster: Cluster,
    repository: RepositoryName,
    counted: Sequence[DayCounts],
    seconds: float = _STORING_SECONDS,
    *,
    prepared: bool = False,
) -> bool:
    """Store counts for later requests; return whether the cluster accepted them in time.

    If it did not, nothing is stored for a while. `prepared` is what `is_prepared` returns for them.
    """
    if not cluster.day_count_pause.is_over:
        return False
    operations = []
    for each in counted:
        place = place_of(cluster, repository, each.day, each.value)
        source = {
            "repository_id": place.routing,
            "kind": KIND,
            "place": place.id,
            "day": each.day,
            "format": _FORMAT,
            # As text: it is never searched, and a node need not read what is in it.
            "counts": each.encode().decode(),
        }
        if prepared:
            source[_PREPARED] = True
        operations.append(Operation("index", place.index, place.id, place.routing, source))
    lines = b"".join(operation.encode() for operation in operations)
    reason = ""
    try:
        async with asyncio.timeout(seconds):
            answer = await cluster.connection.request("POST", "/_bulk", lines)
        if answer["errors"]:
            refused = (each["index"].get("error") for each in answer["items"])
            reason = describe(next(filter(None, refused)))
    except (StoreError, TimeoutError) as error:
        reason = str(error) or "the cluster takes too long"
    if reason:
        _log.warning("counts of days of the event log cannot be stored: %s", reason)
        cluster.day_count_pause.begin()
    return not reason
