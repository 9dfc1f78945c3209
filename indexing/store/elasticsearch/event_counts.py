"""Counts the event log with aggregations; every count is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from indexing.errors import StoreUnavailableError
from indexing.models.event_aggregates import MAX_FACET_VALUES, Bars, EventAggregate, rank
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import TIME, make_query, slices_of

_FACETS: Final = ("type", "outcome", "trigger", "pull_request")
# Each shard returns this many of its most frequent values. If a shard has more values, the merged
# counts may be too low; the engine reports the largest possible error.
_OF_A_SHARD: Final = 10_000
_VALUES_A_PAGE: Final = 10_000
# The most pages of values to count; more would exceed the time limit of a request.
_MOST_PAGES: Final = 20


async def aggregate_events(cluster: Cluster, query: EventQuery, bars: Bars) -> EventAggregate:
    found: Mapping[str, Any] = {}
    total = 0
    facets: dict[str, Counter[Any]] = {}
    index, routing = slices_of(cluster, query), routing_of(query.repository)
    if bars.count:
        matching = make_query(query, await cluster.control.read_retention())
        answer = await cluster.connection.search(index, _body(matching, bars), routing=routing)
        total = answer["hits"]["total"]["value"]
        # If no index matches, the response has no aggregations.
        found = answer.get("aggregations", {})
        for name in _FACETS:
            facet = found.get(name, {"buckets": []})
            if facet.get("doc_count_error_upper_bound"):
                facets[name] = await _count_all(cluster, index, routing, matching, name)
            else:
                facets[name] = Counter(
                    {each["key"]: each["doc_count"] for each in facet["buckets"]}
                )
    counts = {
        round(each["key"] / bars.size) - bars.first: each["doc_count"]
        for each in found.get("bars", {"buckets": []})["buckets"]
    }
    return EventAggregate(
        total=total,
        histogram=tuple(counts.get(number, 0) for number in range(bars.count)),
        by_event_type=rank(facets.get("type", {})),
        by_outcome=rank(facets.get("outcome", {})),
        by_trigger=rank(facets.get("trigger", {})),
        by_pull_request=rank(facets.get("pull_request", {})),
    )


def _body(matching: Mapping[str, Any], bars: Bars) -> dict[str, Any]:
    return {
        "size": 0,
        "track_total_hits": True,
        "query": matching,
        "aggs": {
            "bars": {"histogram": {"field": TIME, "interval": bars.size, "min_doc_count": 1}},
            # The engine sorts by count, and equal counts by value, as `rank` does.
            **{
                name: {
                    "terms": {"field": name, "size": MAX_FACET_VALUES, "shard_size": _OF_A_SHARD}
                }
                for name in _FACETS
            },
        },
    }


async def _count_all(
    cluster: Cluster, index: str, routing: str, matching: Mapping[str, Any], name: str
) -> Counter[Any]:
    """Count every value of a field that has too many for one request."""
    composite: dict[str, Any] = {
        "size": _VALUES_A_PAGE,
        "sources": [{name: {"terms": {"field": name}}}],
    }
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": matching,
        "aggs": {"values": {"composite": composite}},
    }
    counts: Counter[Any] = Counter()
    for _ in range(_MOST_PAGES):
        answer = await cluster.connection.search(index, body, routing=routing)
        buckets = answer["aggregations"]["values"]["buckets"]
        counts.update({each["key"][name]: each["doc_count"] for each in buckets})
        if len(buckets) < _VALUES_A_PAGE:
            return counts
        composite["after"] = answer["aggregations"]["values"]["after_key"]
    raise StoreUnavailableError(f"the range has too many values of {name} to be counted in time")
