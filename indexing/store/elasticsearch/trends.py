"""Daily series of a repository: results from the counts of runs, health from its changes."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from indexing.health.window import end_of_day
from indexing.models.executions import Conclusion
from indexing.models.repositories import Repository
from indexing.models.trends import DayQuery, DaySums, DaySumsOfTest, HealthCounts
from indexing.store.elasticsearch.client.clauses import any_of
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.changes import BY_HEALTH, FLAKY, OF_TEST, sum_changes
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.derived.past_days import PAST, SUMMED
from indexing.store.elasticsearch.derived.run_counts import OF_RUN
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.indices.slices import indices_between
from indexing.store.elasticsearch.repositories import find_repository
from indexing.store.elasticsearch.tests import is_test_known
from indexing.timestamps import DAY_MICROSECONDS, EPOCH

T = TypeVar("T")

# More than the longest range has days.
_MOST_DAYS: Final = 1_000
_COUNTED: Final = (Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED)
_OF_DURATIONS: Final = {"durations": "value_count", "total": "sum", "longest": "max"}
_IS_FLAKY: Final = {"term": {"kind": FLAKY}}
_OF_VERDICTS: Final = {"verdicts": {"sum": {"field": "verdicts"}}}


async def sum_days(cluster: Cluster, query: DayQuery) -> dict[int, DaySums]:
    """Add up the executions of each day; days without executions are left out."""
    settings = await find_repository(cluster, query.repository)
    if settings is None:
        return {}
    return await _while_retained(cluster, partial(_sum_days, cluster, query, settings))


async def _sum_days(
    cluster: Cluster, query: DayQuery, settings: Repository, retention: Retention
) -> dict[int, DaySums]:
    final_day = retention.final_day
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


async def sum_days_of_test(
    cluster: Cluster, query: DayQuery, test_id: uuid.UUID
) -> dict[int, DaySumsOfTest] | None:
    """Add up the results of a test on each day that retention has not reached.

    Returns `None` if the repository has no such test.
    """
    if not await is_test_known(cluster, query.repository, test_id):
        return None
    settings = await find_repository(cluster, query.repository)
    if settings is None:
        return {}
    read = partial(_sum_days_of_test, cluster, query, test_id, settings)
    return await _while_retained(cluster, read)


async def _sum_days_of_test(
    cluster: Cluster,
    query: DayQuery,
    test_id: uuid.UUID,
    settings: Repository,
    retention: Retention,
) -> dict[int, DaySumsOfTest]:
    days = range(max(query.first_day, retention.final_day + 1), query.last_day + 1)
    if not days:
        return {}
    routing = routing_of(query.repository)
    filters = [
        {"term": {"repository_id": routing}},
        {"term": {"test_id": str(test_id)}},
        *any_of({"pipeline_name": query.pipelines, "job_name": query.jobs}),
    ]
    start, end = EPOCH + timedelta(days=days.start), end_of_day(days[-1])
    executed, flaky = await cluster.connection.search_many(
        [
            Search(
                indices_between(cluster.layout.executions_of, start, end),
                _body_of_executions(filters, settings.default_branch, days, retention),
                routing,
            ),
            Search(
                cluster.layout.changes,
                _body_by_day([*filters, _IS_FLAKY], days, _OF_VERDICTS),
                routing,
            ),
        ]
    )
    sums: dict[int, DaySumsOfTest] = {}
    for bucket in _buckets(executed):
        counts = [bucket[conclusion.value]["doc_count"] for conclusion in _COUNTED]
        durations = [round(bucket[name]["value"] or 0) for name in _OF_DURATIONS]
        day = round(bucket["key"]) // DAY_MICROSECONDS
        sums[day] = DaySumsOfTest._make([*counts, 0, *durations])
    for bucket in _buckets(flaky):
        before = sums.get(bucket["key"], DaySumsOfTest())
        sums[bucket["key"]] = before._replace(flaky_verdicts=round(bucket["verdicts"]["value"]))
    return sums


def _body_of_executions(
    filters: Sequence[Mapping[str, Any]], branch: str, days: range, retention: Retention
) -> dict[str, Any]:
    within: dict[str, Any] = {
        conclusion.value: {"filter": {"term": {"conclusion": conclusion.value}}}
        for conclusion in _COUNTED
    }
    within |= {name: {kind: {"field": "microseconds"}} for name, kind in _OF_DURATIONS.items()}
    bounds = {"gte": days.start * DAY_MICROSECONDS, "lt": days.stop * DAY_MICROSECONDS}
    of_branch = [{"term": {"branch": branch}}, {"range": {FINISHED_AT: bounds}}]
    by_day = {"field": FINISHED_AT, "interval": DAY_MICROSECONDS, "min_doc_count": 1}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {
            "bool": {"filter": [*filters, *of_branch], "must_not": retention.hidden(FINISHED_AT)}
        },
        "aggs": {"days": {"histogram": by_day, "aggs": within}},
    }


def _body_by_day(
    filters: Sequence[Mapping[str, Any]], days: range, within: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the search that aggregates documents by their field `day`."""
    of_days = {"range": {"day": {"gte": days.start, "lt": days.stop}}}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": [*filters, of_days]}},
        "aggs": {"days": {"terms": {"field": "day", "size": _MOST_DAYS}, "aggs": within}},
    }


def _buckets(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the daily buckets of a response; there are none if no index matches."""
    found: Sequence[Mapping[str, Any]] = (
        answer.get("aggregations", {}).get("days", {}).get("buckets", ())
    )
    return found


async def _while_retained(
    cluster: Cluster, read: Callable[[Retention], Awaitable[dict[int, T]]]
) -> dict[int, T]:
    """Return the result of `read`, after which the retention marks are still those given to it.

    The marks that this process remembers may be those before a retention run of another process.
    That deletes counts of the days that it makes final.
    """
    while True:
        retention = await cluster.control.read_retention()
        found = await read(retention)
        if (await cluster.control.read()).retention == retention:
            return found


async def count_flaky_verdicts(cluster: Cluster, query: DayQuery) -> dict[int, int]:
    """Count the flaky verdicts that began on each day; days without any are left out."""
    found = await _by_day(
        cluster,
        cluster.layout.changes,
        query,
        [_IS_FLAKY],
        _OF_VERDICTS,
    )
    return {day: round(bucket["verdicts"]["value"]) for day, bucket in found.items()}


async def count_health(cluster: Cluster, query: DayQuery) -> HealthCounts:
    """Count the tests of each health before the first day, and the changes on each day after."""
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
                "aggs": BY_HEALTH,
            },
            "during": {
                "filter": {"range": {"day": {"gte": query.first_day}}},
                "aggs": {
                    "days": {"terms": {"field": "day", "size": _MOST_DAYS}, "aggs": BY_HEALTH}
                },
            },
        },
    }
    answer = await cluster.connection.search(
        cluster.layout.changes, body, routing=routing_of(query.repository)
    )
    found = answer["aggregations"]
    return HealthCounts(
        sum_changes(found["before"]),
        {bucket["key"]: sum_changes(bucket) for bucket in found["during"]["days"]["buckets"]},
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
    filters = [
        {"term": {"repository_id": routing}},
        *any_of({"pipeline_name": query.pipelines, "job_name": query.jobs}),
        *filters,
    ]
    body = _body_by_day(filters, range(query.first_day, query.last_day + 1), within)
    answer = await cluster.connection.search(index, body, routing=routing)
    return {bucket["key"]: bucket for bucket in answer["aggregations"]["days"]["buckets"]}
