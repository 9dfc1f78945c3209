"""Lists the repositories of an owner with figures of their tests, quarantines, runs and events."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from indexing.models.listed_repositories import (
    ListedRepository,
    RepositoryKey,
    RepositoryQuery,
    RepositorySort,
    TestCounts,
)
from indexing.models.paging import Anchor, Page
from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.paging import page_of_read
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.changes import BY_HEALTH, OF_TEST, sum_changes
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.event_query import RECEIVED_AT
from indexing.store.elasticsearch.quarantine_query import in_force
from indexing.store.elasticsearch.repositories import KIND, find_repository, repository_of
from indexing.timestamps import moment_or_none

# The event loop waits while a page is decoded: this takes some ten milliseconds. Each repository
# takes a bucket for every state of health, and a cluster allows 65,536 buckets in a response.
_REPOSITORIES_A_PAGE: Final = 500
_GROUPS_A_PAGE: Final = 10_000

_Place = tuple[int, int, str]


async def list_owned(
    cluster: Cluster, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
) -> Page[ListedRepository]:
    if query.name is None and query.sort is RepositorySort.NAME:
        page = await _page_by_name(cluster, query, anchor, limit)
    else:
        page = await _page_by_health(cluster, query, anchor, limit)
    rows = await _with_figures(cluster, page.rows, query.now)
    return replace(page, rows=rows)


async def _page_by_name(
    cluster: Cluster, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
) -> Page[ListedRepository]:
    here = _body(query, backward=anchor.backward, size=limit + 1)
    bodies = [here]
    if anchor.key is not None:
        after = [anchor.key.name]
        here["search_after"] = after
        behind = _body(query, backward=not anchor.backward, size=1)
        itself = _body(query, backward=False, size=1)
        itself["query"]["bool"]["filter"].append({"term": {"name_key": anchor.key.name}})
        bodies += [behind | {"search_after": after}, itself]
    answers = await cluster.connection.search_many(
        [Search(cluster.layout.control, body) for body in bodies]
    )
    hits, *others = [answer["hits"]["hits"] for answer in answers]
    rows = await _with_health(cluster, [repository_of(hit["_source"]) for hit in hits[:limit]])
    goes_on = len(hits) > limit
    return page_of_read(rows, backward=anchor.backward, goes_on=goes_on, behind=any(others))


def _body(query: RepositoryQuery, *, backward: bool, size: int) -> dict[str, Any]:
    filters = [{"term": {"kind": KIND}}, {"term": {"owner_key": query.owner.lower()}}]
    return {
        "size": size,
        "query": {"bool": {"filter": filters}},
        "sort": [{"name_key": "desc" if backward else "asc"}],
        "track_total_hits": False,
    }


async def _page_by_health(
    cluster: Cluster, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
) -> Page[ListedRepository]:
    """Read all repositories, and keep only those nearest to the anchor.

    An owner may have tens of thousands, which would block the event loop for a second.
    """
    nearest: list[ListedRepository] = []
    lies_behind = False
    start = None if anchor.key is None else _place(anchor.key)

    def place(row: ListedRepository) -> _Place:
        return _place(row.key_in(query.sort))

    def is_beyond(row: ListedRepository) -> bool:
        return start is None or (place(row) < start if anchor.backward else place(row) > start)

    choose = heapq.nlargest if anchor.backward else heapq.nsmallest
    async for found in _read_all(cluster, query):
        rows = await _with_health(cluster, found)
        beyond = list(filter(is_beyond, rows))
        lies_behind |= len(beyond) < len(rows)
        nearest = choose(limit + 1, [*nearest, *beyond], key=place)
    goes_on = len(nearest) > limit
    return page_of_read(
        nearest[:limit], backward=anchor.backward, goes_on=goes_on, behind=lies_behind
    )


async def _read_all(
    cluster: Cluster, query: RepositoryQuery
) -> AsyncIterator[Sequence[Repository]]:
    if query.name is not None:
        one = await find_repository(cluster, RepositoryName(query.owner, query.name))
        if one is not None:
            yield [one]
        return
    body = _body(query, backward=False, size=_REPOSITORIES_A_PAGE)
    async for hits in scan(cluster.connection, cluster.layout.control, body, timeouts=None):
        yield [repository_of(hit["_source"]) for hit in hits]


def _place(key: RepositoryKey) -> _Place:
    return -key.broken, -key.flaky, key.name


async def _with_health(
    cluster: Cluster, repositories: Sequence[Repository]
) -> list[ListedRepository]:
    """Return the repositories with the counts of their tests, and no other figures."""
    counts = await _count_health(cluster, repositories)
    return [
        ListedRepository(
            repository,
            TestCounts.of(
                counts.get(routing_of(repository.name), {}),
                flaky_detection=repository.flaky_detection,
            ),
            0,
            None,
            None,
        )
        for repository in repositories
    ]


async def _count_health(
    cluster: Cluster, repositories: Sequence[Repository]
) -> dict[str, dict[str, int]]:
    """Count the tests of each health by routing: the sum of all changes of health."""
    if not repositories:
        return {}
    routings = [routing_of(repository.name) for repository in repositories]
    answer = await cluster.connection.search(cluster.layout.changes, _body_of_counts(routings))
    return {
        bucket["key"]: sum_changes(bucket)
        for bucket in answer["aggregations"]["repositories"]["buckets"]
    }


def _body_of_counts(routings: Sequence[str]) -> dict[str, Any]:
    filters = [{"term": {"kind": OF_TEST}}, {"terms": {"repository_id": routings}}]
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": filters}},
        "aggs": {
            "repositories": {
                "terms": {"field": "repository_id", "size": len(routings)},
                "aggs": BY_HEALTH,
            }
        },
    }


async def _with_figures(
    cluster: Cluster, rows: Sequence[ListedRepository], now: datetime
) -> tuple[ListedRepository, ...]:
    if not rows:
        return ()
    routings = [routing_of(row.repository.name) for row in rows]
    quarantined = await _count_quarantined(cluster, routings, now)
    hidden = (await cluster.control.read_retention()).hidden(RECEIVED_AT)
    newest = [
        Search(index, _newest(routing, time, excluded), routing)
        for index, time, excluded in (
            (cluster.layout.arrivals, FINISHED_AT, ()),
            (cluster.layout.events, RECEIVED_AT, hidden),
        )
        for routing in routings
    ]
    moments = [
        moment_or_none(answer["hits"]["hits"][0]["sort"][0] if answer["hits"]["hits"] else None)
        for answer in await cluster.connection.search_many(newest)
    ]
    executed, received = moments[: len(routings)], moments[len(routings) :]
    return tuple(
        replace(
            row,
            quarantined_tests=quarantined.get(routing, 0),
            last_execution_at=execution,
            last_event_at=event,
        )
        for row, routing, execution, event in zip(rows, routings, executed, received, strict=True)
    )


def _newest(routing: str, time: str, excluded: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    filters = [{"term": {"repository_id": routing}}]
    return {
        "size": 1,
        "query": {"bool": {"filter": filters, "must_not": [*excluded]}},
        "sort": [{time: "desc"}],
        "track_total_hits": False,
        "_source": False,
    }


async def _count_quarantined(
    cluster: Cluster, routings: Sequence[str], now: datetime
) -> dict[str, int]:
    """Count the quarantined tests by routing; a test with several quarantines counts once."""
    counts: dict[str, int] = {}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.quarantines,
        in_force(now, {"terms": {"repository_id": routings}}),
        ("repository_id", "test_id"),
        size=_GROUPS_A_PAGE,
        timeouts=None,
    ):
        for bucket in buckets:
            routing = bucket["key"]["repository_id"]
            counts[routing] = counts.get(routing, 0) + 1
    return counts
