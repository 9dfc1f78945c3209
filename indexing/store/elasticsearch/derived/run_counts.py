"""Counts the stored results of each run, in one document a run and one a run and UTC day.

A refresh counts the runs that its markers name, so a kill leaves a marker and the next refresh
counts again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from typing import Any, Final

from indexing.health.window import DAY_MICROSECONDS
from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import WRITING, Document
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.observation_clauses import TIME

# What the executions of one arrival share.
SHARED: Final = (
    "run",
    "run_id",
    "attempt",
    "pipeline_name",
    "job_name",
    "branch",
    "commit",
    "pull_number",
    "job_url",
)
# What a document of a day takes of them.
_OF_DAY: Final = ("run", "pipeline_name", "job_name", "branch")
OF_RUN: Final = "run"
_BY_DAY: Final = {"day": {"histogram": {"field": TIME, "interval": DAY_MICROSECONDS}}}

# An index and the id of a document.
_Place = tuple[str, str]

_RUNS_AT_ONCE: Final = 500
_GROUPS_A_PAGE: Final = 500
_ROWS_A_PAGE: Final = 5_000


async def count(
    cluster: Cluster,
    routing: str,
    runs: Collection[str],
    searchable: Awaitable[None],
    *,
    removed: bool = False,
) -> None:
    """Count the stored results of these runs, and store what was counted.

    The executions are searchable once `searchable` is done. With `removed`, documents of which
    nothing is left are deleted.
    """
    waiting = sorted(runs)
    if not waiting:
        return
    await searchable
    for start in range(0, len(waiting), _RUNS_AT_ONCE):
        some = waiting[start : start + _RUNS_AT_ONCE]
        while some:
            some = await _count_some(cluster, routing, some, removed=removed)


async def count_repository(cluster: Cluster, routing: str) -> None:
    """Count all runs of a repository again."""
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        {"term": {"repository_id": routing}},
        ("run",),
        size=_RUNS_AT_ONCE,
        routing=routing,
    ):
        runs = {bucket["key"]["run"] for bucket in buckets}
        if runs:
            searchable = cluster.connection.refresh(cluster.layout.executions)
            await count(cluster, routing, runs, searchable)


async def drop_before(cluster: Cluster, moment: int) -> None:
    """Count the runs again that lost results to retention; delete those that lost all."""
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"range": {"first_at": {"lt": moment}}},
        "sort": [{"first_at": "asc"}, {"arrival": "asc"}],
        "_source": ["repository_id", "run"],
    }
    await cluster.connection.refresh(cluster.layout.arrivals)
    touched: dict[str, set[str]] = {}
    async for hits in scan(cluster.connection, cluster.layout.arrivals, body):
        for hit in hits:
            touched.setdefault(hit["_source"]["repository_id"], set()).add(hit["_source"]["run"])
    for routing, runs in touched.items():
        searchable = cluster.connection.refresh(cluster.layout.executions)
        await count(cluster, routing, runs, searchable, removed=True)


async def _count_some(
    cluster: Cluster, routing: str, runs: Collection[str], *, removed: bool
) -> list[str]:
    """Return the runs to count again, because another process has counted them meanwhile."""
    known = await _find_places(cluster, routing, runs, removed=removed)
    places = [(index, place, routing) for index, place in known]
    # Versions come before the counts: a process that counts more meanwhile causes a conflict.
    documents = await cluster.connection.get_many(places, patience=WRITING)
    stored = {
        place: document
        for place, document in zip(known, documents, strict=True)
        if document is not None
    }
    counted = await _read(cluster, routing, runs)
    operations = [
        _operation_of(routing, place, source, stored.get(place))
        for place, source in counted.items()
        if place not in stored or stored[place].source != source
    ]
    operations += [
        Operation("delete", *place, routing, None, document.version.parameters)
        for place, document in stored.items()
        if place not in counted
    ]
    outcomes = await bulk.send(cluster.connection, operations, visible=True)
    again = {
        str((counted.get(place) or stored[place].source)["run"])
        for place, outcome in zip(
            ((each.index, each.id) for each in operations), outcomes, strict=True
        )
        if outcome.conflicts
    }
    return sorted(again)


def _operation_of(
    routing: str, place: _Place, source: Mapping[str, Any], stored: Document | None
) -> Operation:
    action: bulk.Action = "create" if stored is None else "index"
    guard = None if stored is None else stored.version.parameters
    return Operation(action, *place, routing, source, guard)


async def _find_places(
    cluster: Cluster, routing: str, runs: Collection[str], *, removed: bool
) -> list[_Place]:
    """Return the places of the documents that these runs have, or should have."""
    layout = cluster.layout
    found: dict[_Place, None] = {}
    async for buckets in scan_groups(
        cluster.connection,
        layout.executions,
        await _query_of(cluster, routing, runs),
        ("arrival", _BY_DAY),
        size=_ROWS_A_PAGE,
        routing=routing,
    ):
        for bucket in buckets:
            arrival = bucket["key"]["arrival"]
            found[layout.arrivals, arrival] = None
            found[layout.days, _id_of_day(arrival, _day_of(bucket))] = None
    if removed:
        filters = [{"term": {"repository_id": routing}}, {"terms": {"run": [*runs]}}]
        for index, order in ((layout.arrivals, "arrival"), (layout.days, "place")):
            body = {
                "size": _ROWS_A_PAGE,
                "query": {"bool": {"filter": filters}},
                "sort": [{order: "asc"}],
                "_source": False,
            }
            await cluster.connection.refresh(index)
            async for hits in scan(cluster.connection, index, body, routing=routing):
                found.update(((index, hit["_id"]), None) for hit in hits)
    return list(found)


async def _read(
    cluster: Cluster, routing: str, runs: Collection[str]
) -> dict[_Place, dict[str, Any]]:
    """Return the documents of these runs by their stored executions."""
    layout = cluster.layout
    found: dict[_Place, dict[str, Any]] = {}
    counts = {each.value: {"filter": {"term": {"conclusion": each.value}}} for each in Conclusion}
    shared = {"top_hits": {"size": 1, "_source": [*SHARED]}}
    moments = {"first": {"min": {"field": TIME}}, "last": {"max": {"field": TIME}}}
    durations = {
        "durations": {"value_count": {"field": "microseconds"}},
        "total_duration": {"sum": {"field": "microseconds"}},
    }
    async for buckets in scan_groups(
        cluster.connection,
        layout.executions,
        await _query_of(cluster, routing, runs),
        ("arrival", _BY_DAY),
        size=_GROUPS_A_PAGE,
        routing=routing,
        within={"shared": shared, **counts, **moments, **durations},
    ):
        for bucket in buckets:
            (hit,) = bucket["shared"]["hits"]["hits"]
            arrival, day = bucket["key"]["arrival"], _day_of(bucket)
            counted = {each.value: bucket[each.value]["doc_count"] for each in Conclusion}
            place = _id_of_day(arrival, day)
            found[layout.days, place] = {
                "repository_id": routing,
                "kind": OF_RUN,
                "place": place,
                **{name: hit["_source"][name] for name in _OF_DAY},
                "day": day,
                **counted,
                "durations": bucket["durations"]["value"],
                "total_duration": float(bucket["total_duration"]["value"]),
            }
            source = found.setdefault(
                (layout.arrivals, arrival),
                {
                    "repository_id": routing,
                    "arrival": arrival,
                    **{name: hit["_source"][name] for name in SHARED},
                    "first_at": int(bucket["first"]["value"]),
                    TIME: int(bucket["last"]["value"]),
                    **dict.fromkeys(counted, 0),
                },
            )
            source["first_at"] = min(source["first_at"], int(bucket["first"]["value"]))
            source[TIME] = max(source[TIME], int(bucket["last"]["value"]))
            for name, count in counted.items():
                source[name] += count
    return found


def _day_of(bucket: Mapping[str, Any]) -> int:
    start: float = bucket["key"]["day"]
    return round(start / DAY_MICROSECONDS)


def _id_of_day(arrival: str, day: int) -> str:
    return f"{arrival}-{day}"


async def _query_of(cluster: Cluster, routing: str, runs: Collection[str]) -> dict[str, Any]:
    retention = (await cluster.control.read()).retention
    filters = [{"term": {"repository_id": routing}}, {"terms": {"run": [*runs]}}]
    return {"bool": {"filter": filters, "must_not": retention.hidden(TIME)}}
