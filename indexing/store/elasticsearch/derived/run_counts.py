"""Counts the stored results of each run, in one document a run.

A refresh counts the runs that its markers name, so a kill leaves a marker and the next refresh
counts again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from typing import Any, Final

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
    known = await _find_ids(cluster, routing, runs, removed=removed)
    places = [(cluster.layout.arrivals, arrival, routing) for arrival in known]
    # Versions come before the counts: a process that counts more meanwhile causes a conflict.
    documents = await cluster.connection.get_many(places, patience=WRITING)
    stored = {document.id: document for document in documents if document is not None}
    counted = await _read(cluster, routing, runs)
    operations = [
        _operation_of(cluster, routing, arrival, source, stored.get(arrival))
        for arrival, source in counted.items()
        if arrival not in stored or stored[arrival].source != source
    ]
    operations += [
        Operation(
            "delete", cluster.layout.arrivals, arrival, routing, None, document.version.parameters
        )
        for arrival, document in stored.items()
        if arrival not in counted
    ]
    outcomes = await bulk.send(cluster.connection, operations, visible=True)
    again = {
        str((counted.get(operation.id) or stored[operation.id].source)["run"])
        for operation, outcome in zip(operations, outcomes, strict=True)
        if outcome.conflicts
    }
    return sorted(again)


def _operation_of(
    cluster: Cluster,
    routing: str,
    arrival: str,
    source: Mapping[str, Any],
    stored: Document | None,
) -> Operation:
    action: bulk.Action = "create" if stored is None else "index"
    guard = None if stored is None else stored.version.parameters
    return Operation(action, cluster.layout.arrivals, arrival, routing, source, guard)


async def _find_ids(
    cluster: Cluster, routing: str, runs: Collection[str], *, removed: bool
) -> set[str]:
    found: set[str] = set()
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        await _query_of(cluster, routing, runs),
        ("arrival",),
        size=_ROWS_A_PAGE,
        routing=routing,
    ):
        found.update(bucket["key"]["arrival"] for bucket in buckets)
    if removed:
        filters = [{"term": {"repository_id": routing}}, {"terms": {"run": [*runs]}}]
        body = {
            "size": _ROWS_A_PAGE,
            "query": {"bool": {"filter": filters}},
            "sort": [{"arrival": "asc"}],
            "_source": False,
        }
        async for hits in scan(cluster.connection, cluster.layout.arrivals, body, routing=routing):
            found.update(hit["_id"] for hit in hits)
    return found


async def _read(cluster: Cluster, routing: str, runs: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the documents of these runs by their stored executions."""
    found: dict[str, dict[str, Any]] = {}
    counts = {each.value: {"filter": {"term": {"conclusion": each.value}}} for each in Conclusion}
    shared = {"top_hits": {"size": 1, "_source": [*SHARED]}}
    moments = {"first": {"min": {"field": TIME}}, "last": {"max": {"field": TIME}}}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        await _query_of(cluster, routing, runs),
        ("arrival",),
        size=_GROUPS_A_PAGE,
        routing=routing,
        within={"shared": shared, **counts, **moments},
    ):
        for bucket in buckets:
            (hit,) = bucket["shared"]["hits"]["hits"]
            arrival = bucket["key"]["arrival"]
            found[arrival] = {
                "repository_id": routing,
                "arrival": arrival,
                **{name: hit["_source"][name] for name in SHARED},
                "first_at": int(bucket["first"]["value"]),
                TIME: int(bucket["last"]["value"]),
                **{each.value: bucket[each.value]["doc_count"] for each in Conclusion},
            }
    return found


async def _query_of(cluster: Cluster, routing: str, runs: Collection[str]) -> dict[str, Any]:
    retention = (await cluster.control.read()).retention
    filters = [{"term": {"repository_id": routing}}, {"terms": {"run": [*runs]}}]
    return {"bool": {"filter": filters, "must_not": retention.hidden(TIME)}}
