"""Builds the queries of the event log, and chooses the time slices to search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from indexing.models.events import EventQuery
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.indices.slices import indices_between
from indexing.timestamps import to_microseconds

RECEIVED_AT: Final = "received_at"
FACETS: Final = ("type", "outcome", "trigger", "pull_request")
# The values of a facet in one answer. Facets with more are not added up.
_MOST_VALUES: Final = 10_000
_BARS: Final = "bars"


def slices_of(layout: Layout, query: EventQuery) -> str:
    """Return the indices of the time range; naming no others makes a search cheaper."""
    start, end = query.received_from, query.received_to
    return _name_slices(layout, (start.year, start.month), (end.year, end.month))


# A slice is a month, so all ranges between two months have the same slices.
@lru_cache(maxsize=128)
def _name_slices(layout: Layout, first: tuple[int, int], last: tuple[int, int]) -> str:
    start, end = datetime(*first, 1, tzinfo=UTC), datetime(*last, 1, tzinfo=UTC)
    return indices_between(layout.events_of, start, end)


def make_query(query: EventQuery, retention: Retention) -> dict[str, Any]:
    """Return the query for matching events that retention has not dropped."""
    start = to_microseconds(query.received_from)
    window = {"gte": start, "lt": to_microseconds(query.received_to)}
    filters: list[dict[str, Any]] = [
        {"term": {"repository_id": routing_of(query.repository)}},
        {"range": {RECEIVED_AT: window}},
    ]
    excluded = []
    for field, values, left_out in (
        ("pull_request", query.pull_requests, query.pull_requests_excluded),
        ("type", query.event_types, query.event_types_excluded),
        ("trigger", query.triggers, query.triggers_excluded),
        (
            "outcome",
            [each.value for each in query.outcomes],
            [each.value for each in query.outcomes_excluded],
        ),
    ):
        if values:
            filters.append({"terms": {field: list(values)}})
        if left_out:
            excluded.append({"terms": {field: list(left_out)}})
    if query.base_ref is not None:
        filters.append({"term": {"base_ref": query.base_ref}})
    found: dict[str, Any] = {"filter": filters}
    if retention.reaches(start):
        excluded += retention.hidden(RECEIVED_AT)
    if excluded:
        found["must_not"] = excluded
    return {"bool": found}


def every_of(query: EventQuery) -> EventQuery:
    """Return the query without its filters."""
    return EventQuery(query.repository, query.received_from, query.received_to)


def without_exclusions(query: EventQuery) -> EventQuery:
    """Return the query without filters that leave values out, which are slow: it matches more."""
    return replace(
        query,
        event_types_excluded=(),
        triggers_excluded=(),
        outcomes_excluded=(),
        pull_requests_excluded=(),
    )


def count_bars(matching: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return the search that counts the matching events in bars of `size` microseconds."""
    return {
        "size": 0,
        # Each event is in a bar, so the bars add up to the total.
        "track_total_hits": False,
        "query": matching,
        "aggs": {
            _BARS: {"histogram": {"field": RECEIVED_AT, "interval": size, "min_doc_count": 1}}
        },
    }


def count_facets(
    matching: Mapping[str, Any], size: int, fields: Sequence[str] = FACETS
) -> dict[str, Any]:
    """Return the search of `count_bars` that also counts the values of each field."""
    body = count_bars(matching, size)
    body["aggs"] |= {
        name: {"terms": {"field": name, "size": _MOST_VALUES, "shard_size": _MOST_VALUES}}
        for name in fields
    }
    return body


def read_bars(answer: Mapping[str, Any], size: int) -> dict[int, int]:
    """Return the counts by the number of the bar, from 1970 on; none if no index matched."""
    buckets = answer["aggregations"][_BARS]["buckets"] if "aggregations" in answer else ()
    return {round(each["key"] / size): each["doc_count"] for each in buckets}
