"""Series of a repository by day, from what runs hold of days and from changes of health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from indexing.models.trends import DayQuery, DaySums, HealthCounts
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.changes import FLAKY, OF_TEST
from indexing.store.elasticsearch.derived.past_days import PAST, SUMMED
from indexing.store.elasticsearch.derived.run_counts import OF_RUN
from indexing.store.elasticsearch.listed_executions import any_of
from indexing.store.elasticsearch.repositories import find_repository

# More than the days of the longest range.
_MOST_DAYS: Final = 1_000
# More than the states of health.
_MOST_STATES: Final = 10


async def sum_days(cluster: Cluster, query: DayQuery) -> dict[int, DaySums]:
    """Add up the executions of each day that has some."""
    settings = await find_repository(cluster, query.repository)
    if settings is None:
        return {}
    final_day = (await cluster.control.read_retention()).final_day
    sources = [
        {"bool": {"filter": [{"term": {"kind": kind}}, {"range": {"day": days}}]}}
        for kind, days in ((PAST, {"lte": final_day}), (OF_RUN, {"gt": final_day}))
    ]
    found = await _by_day(
        cluster,
        cluster.layout.days,
        query,
        [{"term": {"branch": settings.default_branch}}, {"bool": {"should": sources}}],
        {name: {"sum": {"field": name}} for name in SUMMED},
    )
    sums: dict[int, DaySums] = {}
    for day, bucket in found.items():
        passed, failed, skipped, durations, total = (bucket[name]["value"] for name in SUMMED)
        sums[day] = DaySums(
            round(passed), round(failed), round(skipped), round(durations), float(total)
        )
    return sums


async def count_flaky_verdicts(cluster: Cluster, query: DayQuery) -> dict[int, int]:
    """Count the flaky verdicts that began on each day, where there are some."""
    found = await _by_day(
        cluster,
        cluster.layout.changes,
        query,
        [{"term": {"kind": FLAKY}}],
        {"verdicts": {"sum": {"field": "verdicts"}}},
    )
    return {day: round(bucket["verdicts"]["value"]) for day, bucket in found.items()}


async def count_health(cluster: Cluster, query: DayQuery) -> HealthCounts:
    """Count how the tests of a repository changed until the last day."""
    states = {
        name: {"terms": {"field": name, "size": _MOST_STATES}} for name in ("previous", "health")
    }
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": {
            "bool": {
                "filter": [
                    {"term": {"repository_id": routing_of(query.repository)}},
                    {"term": {"kind": OF_TEST}},
                    {"range": {"day": {"lte": query.last_day}}},
                ]
            }
        },
        "aggs": {
            "before": {
                "filter": {"range": {"day": {"lt": query.first_day}}},
                "aggs": states,
            },
            "during": {
                "filter": {"range": {"day": {"gte": query.first_day}}},
                "aggs": {"days": {"terms": {"field": "day", "size": _MOST_DAYS}, "aggs": states}},
            },
        },
    }
    answer = await cluster.connection.search(
        cluster.layout.changes, body, routing=routing_of(query.repository)
    )
    found = answer["aggregations"]
    return HealthCounts(
        _changes_of(found["before"]),
        {bucket["key"]: _changes_of(bucket) for bucket in found["during"]["days"]["buckets"]},
    )


async def _by_day(
    cluster: Cluster,
    index: str,
    query: DayQuery,
    filters: Sequence[Mapping[str, Any]],
    within: Mapping[str, Any],
) -> dict[int, Mapping[str, Any]]:
    """Return a bucket for each day that has a document."""
    routing = routing_of(query.repository)
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": {
            "bool": {
                "filter": [
                    {"term": {"repository_id": routing}},
                    {"range": {"day": {"gte": query.first_day, "lte": query.last_day}}},
                    *any_of({"pipeline_name": query.pipelines, "job_name": query.jobs}),
                    *filters,
                ]
            }
        },
        "aggs": {"days": {"terms": {"field": "day", "size": _MOST_DAYS}, "aggs": within}},
    }
    answer = await cluster.connection.search(index, body, routing=routing)
    return {bucket["key"]: bucket for bucket in answer["aggregations"]["days"]["buckets"]}


def _changes_of(found: Mapping[str, Any]) -> dict[str, int]:
    """Return how many more tests there are of each health."""
    counts: dict[str, int] = {}
    for name, sign in (("health", 1), ("previous", -1)):
        for bucket in found[name]["buckets"]:
            health = bucket["key"]
            counts[health] = counts.get(health, 0) + sign * bucket["doc_count"]
    return counts
