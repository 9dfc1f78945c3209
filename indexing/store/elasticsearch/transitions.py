"""Lists transitions of health, newest first, each with the execution that shows the new health."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from indexing.health.window import day_number, day_of
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor, Page
from indexing.models.repositories import Repository
from indexing.models.tests import HealthStatus
from indexing.models.transitions import (
    MAX_OF_TEST,
    SHOWS_A_FAILURE,
    TestTransitions,
    Transition,
    TransitionKey,
    TransitionQuery,
    shown_as,
    stored_states,
)
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import paging
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.changes import OF_SEQUENCE, OF_TEST
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.indices.slices import indices_between
from indexing.store.elasticsearch.repositories import find_repository
from indexing.store.elasticsearch.tests import is_test_known
from indexing.timestamps import (
    DAY_MICROSECONDS,
    EARLIEST,
    LATEST,
    from_microseconds,
    moment_or_none,
    to_microseconds,
)

_ORDER: Final = ("at", "place")
# What is shown of an execution.
_FIELDS: Final = ("conclusion", "failure_type", "commit", "pull_number")
_ONE_STATE: Final = [HealthStatus.HEALTHY.value, HealthStatus.FLAKY.value]
# The most transitions of one search, which has an aggregation for each of them.
_ROWS_AT_ONCE: Final = 100


async def list_transitions(
    cluster: Cluster, query: TransitionQuery, anchor: Anchor[TransitionKey], limit: int
) -> Page[Transition]:
    settings = await find_repository(cluster, query.repository)
    if settings is None:
        return Page((), has_previous=False, has_next=False)
    flaky_detection = settings.flaky_detection
    beside = None
    if anchor.key is not None:
        at, place = to_microseconds(anchor.key.at), _place_of(anchor.key)
        itself = [{"ids": {"values": [place]}}, {"term": {"at": at}}]
        beside = paging.Beside((at, place), {"bool": {"filter": itself}})
    page, _ = await paging.read_page(
        cluster.connection,
        paging.List(
            index=cluster.layout.changes,
            routing=routing_of(query.repository),
            query=_query_of(query, flaky_detection=flaky_detection),
            order=_ORDER,
            ascending=False,
            fields=("*",),
        ),
        lambda hit: hit["_source"],
        beside=beside,
        backward=anchor.backward,
        limit=limit,
    )
    rows: list[Transition] = []
    for start in range(0, len(page.rows), _ROWS_AT_ONCE):
        rows += await _read(cluster, settings, page.rows[start : start + _ROWS_AT_ONCE])
    return Page(tuple(rows), page.has_previous, page.has_next)


async def list_of_test(
    cluster: Cluster, repository: RepositoryName, test_id: uuid.UUID
) -> TestTransitions | None:
    if not await is_test_known(cluster, repository, test_id):
        return None
    query = TransitionQuery(repository, EARLIEST, LATEST, test_id=test_id)
    page = await list_transitions(cluster, query, Anchor(), MAX_OF_TEST)
    routing = routing_of(repository)
    filters = [
        {"term": {"repository_id": routing}},
        {"term": {"kind": OF_TEST}},
        {"term": {"test_id": str(test_id)}},
    ]
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": filters}},
        "aggs": {"first": {"min": {"field": "at"}}},
    }
    answer = await cluster.connection.search(cluster.layout.changes, body, routing=routing)
    first = answer["aggregations"]["first"]["value"]
    return TestTransitions(page.rows, moment_or_none(None if first is None else int(first)))


def _query_of(query: TransitionQuery, *, flaky_detection: bool) -> dict[str, Any]:
    states = stored_states(query.healths, flaky_detection=flaky_detection)
    moments = {"gte": to_microseconds(query.start), "lt": to_microseconds(query.end)}
    filters: list[dict[str, Any]] = [
        {"term": {"repository_id": routing_of(query.repository)}},
        {"term": {"kind": OF_SEQUENCE}},
        {"exists": {"field": "previous"}},
        {"range": {"at": moments}},
        {"terms": {"health": [state.value for state in states]}},
    ]
    if query.test_id is not None:
        filters.append({"term": {"test_id": str(query.test_id)}})
    hidden = []
    if not flaky_detection:
        both = [{"terms": {field: _ONE_STATE}} for field in ("previous", "health")]
        hidden.append({"bool": {"filter": both}})
    return {"bool": {"filter": filters, "must_not": hidden}}


async def _read(
    cluster: Cluster, settings: Repository, sources: Sequence[Mapping[str, Any]]
) -> list[Transition]:
    """Return these transitions, each with its execution, which one search finds."""
    routing = routing_of(settings.name)
    retention = await cluster.control.read_retention()
    moments = [source["at"] for source in sources]
    start = from_microseconds(day_number(min(moments)) * DAY_MICROSECONDS)
    end = from_microseconds(max(moments))
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": {
            "bool": {
                "filter": [
                    {"term": {"repository_id": routing}},
                    {"term": {"branch": settings.default_branch}},
                    {"terms": {"test_id": sorted({source["test_id"] for source in sources})}},
                ],
                "must_not": retention.hidden(FINISHED_AT),
            }
        },
        "aggs": {
            str(number): _shown(source, flaky_detection=settings.flaky_detection)
            for number, source in enumerate(sources)
        },
    }
    index = indices_between(cluster.layout.executions_of, start, end)
    answer = await cluster.connection.search(index, body, routing=routing)
    found = answer.get("aggregations", {})
    return [
        _transition_of(source, found.get(str(number)), flaky_detection=settings.flaky_detection)
        for number, source in enumerate(sources)
    ]


def _shown(source: Mapping[str, Any], *, flaky_detection: bool) -> dict[str, Any]:
    """Return the aggregation that finds the execution of one transition."""
    order: list[dict[str, str]] = [{FINISHED_AT: "desc"}, {"execution_id": "desc"}]
    shown = {"top_hits": {"size": 1, "sort": order, "_source": list(_FIELDS)}}
    within: dict[str, Any] = {"newest": shown}
    if shown_as(HealthStatus(source["health"]), flaky_detection) in SHOWS_A_FAILURE:
        failed = {"term": {"conclusion": Conclusion.FAILED.value}}
        within["failures"] = {"filter": failed, "aggs": {"newest": shown}}
    filters = [
        {"term": {"test_id": source["test_id"]}},
        {"term": {"pipeline_name": source["pipeline_name"]}},
        {"term": {"job_name": source["job_name"]}},
        {"range": {FINISHED_AT: {"gte": source["day"] * DAY_MICROSECONDS, "lte": source["at"]}}},
    ]
    return {"filter": {"bool": {"filter": filters}}, "aggs": within}


def _transition_of(
    source: Mapping[str, Any], found: Mapping[str, Any] | None, *, flaky_detection: bool
) -> Transition:
    transition = Transition(
        TransitionKey(
            from_microseconds(source["at"]), bytes.fromhex(source["place"].partition("-")[0])
        ),
        uuid.UUID(source["test_id"]),
        source["test_name"],
        source["pipeline_name"],
        source["job_name"],
        shown_as(HealthStatus(source["previous"]), flaky_detection),
        shown_as(HealthStatus(source["health"]), flaky_detection),
    )
    if found is None:
        return transition
    hits = found.get("failures", {"newest": {"hits": {"hits": []}}})["newest"]["hits"]["hits"]
    hits = hits or found["newest"]["hits"]["hits"]
    if not hits:
        return transition
    shown = hits[0]["_source"]
    failed = shown["conclusion"] == Conclusion.FAILED.value
    return replace(
        transition,
        exception_type=shown.get("failure_type") if failed else None,
        commit=shown["commit"],
        pull_number=shown.get("pull_number"),
    )


def _place_of(key: TransitionKey) -> str:
    return f"{key.id.hex()}-{day_of(key.at)}"
