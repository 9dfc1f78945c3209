"""Counts the most frequent values of a field that has too many of them to be added up.

The events of a repository in a time slice lie in one shard. So a range within one slice is answered
exactly by the few values that this shard finds. Of a longer range, each shard sends many values to
the node that merges them. The answer is exact if none was left out; otherwise all values are read
page by page.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from indexing.errors import StoreUnavailableError
from indexing.models.event_aggregates import MAX_FACET_VALUES
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import make_query, slices_of
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.indices.slices import slices_between

# The values that each shard sends to be merged.
_OF_A_SHARD: Final = 100_000
_A_PAGE: Final = 10_000
# The most pages of values to count; more would exceed the time limit of a request.
_MOST_PAGES: Final = 20
_VALUES: Final = "values"


async def count_top_values(
    cluster: Cluster, query: EventQuery, name: str, retention: Retention
) -> dict[Any, int]:
    """Count the events with each of the most frequent values of a field, and maybe with others.

    Of equally frequent values, the smallest are counted.

    Raises:
        StoreUnavailableError: the range has too many values to be counted in time.
    """
    slices = slices_between(query.received_from, query.received_to)
    sizes = (MAX_FACET_VALUES,) if slices is not None and len(slices) == 1 else ()
    for size in (*sizes, _OF_A_SHARD):
        terms = {"field": name, "size": MAX_FACET_VALUES, "shard_size": size}
        found = await _search(cluster, query, retention, {"terms": terms})
        # Zero if all answers are of one shard, whatever it left out.
        if not found["doc_count_error_upper_bound"]:
            return {each["key"]: each["doc_count"] for each in found["buckets"]}
    counts: Counter[Any] = Counter()
    composite: dict[str, Any] = {"size": _A_PAGE, "sources": [{name: {"terms": {"field": name}}}]}
    for _ in range(_MOST_PAGES):
        found = await _search(cluster, query, retention, {"composite": composite})
        counts.update({each["key"][name]: each["doc_count"] for each in found["buckets"]})
        if len(found["buckets"]) < _A_PAGE:
            return counts
        composite["after"] = found["after_key"]
    raise StoreUnavailableError(f"the range has too many values of {name} to be counted in time")


async def _search(
    cluster: Cluster, query: EventQuery, retention: Retention, aggregation: dict[str, Any]
) -> dict[str, Any]:
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": make_query(query, retention),
        "aggs": {_VALUES: aggregation},
    }
    index, routing = slices_of(cluster.layout, query), routing_of(query.repository)
    answer = await cluster.connection.search(index, body, routing=routing)
    none: dict[str, Any] = {"buckets": [], "doc_count_error_upper_bound": 0}
    # If the index has been deleted meanwhile, there are no aggregations.
    found: dict[str, Any] = answer.get("aggregations", {}).get(_VALUES, none)
    return found
