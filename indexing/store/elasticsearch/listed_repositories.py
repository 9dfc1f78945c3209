"""Lists the repositories of an owner with figures of their tests, quarantines, runs and events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
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
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.changes import BY_HEALTH, OF_TEST, sum_changes
from indexing.store.elasticsearch.derived.observation_clauses import TIME as FINISHED_AT
from indexing.store.elasticsearch.event_query import TIME as RECEIVED_AT
from indexing.store.elasticsearch.quarantine_query import in_force
from indexing.store.elasticsearch.repositories import KIND, find_repository, repository_of
from indexing.timestamps import moment_or_none

_REPOSITORIES_A_PAGE: Final = 1_000
# The repositories of one search. Each takes a bucket for every state of health, and a cluster
# allows 65,536 buckets in a response.
_COUNTED_AT_ONCE: Final = 1_000
_GROUPS_A_PAGE: Final = 10_000

_Counts = Mapping[str, Mapping[str, int]]


async def list_owned(
    cluster: Cluster, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
) -> Page[ListedRepository]:
    if query.name is None and query.sort is RepositorySort.NAME:
        page = await _page_by_name(cluster, query, anchor, limit)
        counts = await _count_health(cluster, page.rows)
    else:
        found = await _read_all(cluster, query)
        counts = await _count_health(cluster, found)
        page = _cut(found, counts, query, anchor, limit)
    rows = await _with_figures(cluster, page.rows, counts, query.now)
    return Page(rows, page.has_previous, page.has_next)


async def _page_by_name(
    cluster: Cluster, query: RepositoryQuery, anchor: Anchor[RepositoryKey], limit: int
) -> Page[Repository]:
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
    rows = [repository_of(hit["_source"]) for hit in hits[:limit]]
    goes_on, lies_behind = len(hits) > limit, any(others)
    if anchor.backward:
        return Page(tuple(reversed(rows)), has_previous=goes_on, has_next=lies_behind)
    return Page(tuple(rows), has_previous=lies_behind, has_next=goes_on)


def _body(query: RepositoryQuery, *, backward: bool, size: int) -> dict[str, Any]:
    filters = [{"term": {"kind": KIND}}, {"term": {"owner_key": query.owner.lower()}}]
    return {
        "size": size,
        "query": {"bool": {"filter": filters}},
        "sort": [{"name_key": "desc" if backward else "asc"}],
        "track_total_hits": False,
    }


async def _read_all(cluster: Cluster, query: RepositoryQuery) -> list[Repository]:
    if query.name is not None:
        one = await find_repository(cluster, RepositoryName(query.owner, query.name))
        return [] if one is None else [one]
    found: list[Repository] = []
    body = _body(query, backward=False, size=_REPOSITORIES_A_PAGE)
    async for hits in scan(cluster.connection, cluster.layout.control, body, timeouts=None):
        found += [repository_of(hit["_source"]) for hit in hits]
    return found


def _cut(
    found: Sequence[Repository],
    counts: _Counts,
    query: RepositoryQuery,
    anchor: Anchor[RepositoryKey],
    limit: int,
) -> Page[Repository]:
    """Sort all repositories, and return the page that the anchor selects."""
    placed = sorted(
        ((_place(_without_figures(each, counts).key_in(query.sort)), each) for each in found),
        key=lambda pair: pair[0],
    )
    places = [place for place, _ in placed]
    start, end = 0, len(placed)
    if anchor.key is not None and anchor.backward:
        end = bisect_left(places, _place(anchor.key))
    elif anchor.key is not None:
        start = bisect_right(places, _place(anchor.key))
    first, last = (
        (max(start, end - limit), end) if anchor.backward else (start, min(end, start + limit))
    )
    rows = tuple(repository for _, repository in placed[first:last])
    return Page(rows, has_previous=first > 0, has_next=last < len(placed))


def _place(key: RepositoryKey) -> tuple[int, int, str]:
    return -key.broken, -key.flaky, key.name


def _without_figures(repository: Repository, counts: _Counts) -> ListedRepository:
    tests = TestCounts.of(
        counts.get(routing_of(repository.name), {}), flaky_detection=repository.flaky_detection
    )
    return ListedRepository(repository, tests, 0, None, None)


async def _count_health(
    cluster: Cluster, repositories: Sequence[Repository]
) -> dict[str, dict[str, int]]:
    """Count the tests of each health by routing: the sum of all changes of health."""
    routings = [routing_of(repository.name) for repository in repositories]
    searches = [
        Search(
            cluster.layout.changes,
            _body_of_counts(routings[start : start + _COUNTED_AT_ONCE]),
        )
        for start in range(0, len(routings), _COUNTED_AT_ONCE)
    ]
    counts: dict[str, dict[str, int]] = {}
    for answer in await cluster.connection.search_many(searches) if searches else ():
        for bucket in answer["aggregations"]["repositories"]["buckets"]:
            counts[bucket["key"]] = sum_changes(bucket)
    return counts


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
    cluster: Cluster, repositories: Sequence[Repository], counts: _Counts, now: datetime
) -> tuple[ListedRepository, ...]:
    if not repositories:
        return ()
    routings = [routing_of(repository.name) for repository in repositories]
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
        ListedRepository(
            repository,
            _without_figures(repository, counts).tests,
            quarantined.get(routing, 0),
            execution,
            event,
        )
        for repository, routing, execution, event in zip(
            repositories, routings, executed, received, strict=True
        )
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
