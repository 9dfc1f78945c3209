"""Runs that failed as a whole: a document for each that ever did, and what it says now."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from indexing.health.rules import is_infrastructure_failure
from indexing.identifiers import derive_run_id
from indexing.models.executions import Conclusion, Run
from indexing.names import RepositoryName
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.connection import WRITING, ConflictError
from indexing.store.elasticsearch.retention import Retention
from indexing.store.elasticsearch.scanning import scan_groups
from indexing.store.elasticsearch.stale import announce, confirm

_TESTS_A_PAGE: Final = 5_000


async def find_failed(cluster: Cluster, routing: str, runs: Collection[str]) -> frozenset[str]:
    """Which of these runs failed as a whole."""
    places = [(cluster.layout.runs, run, routing) for run in runs]
    found = await cluster.connection.get_many(places, patience=WRITING)
    return frozenset(run.id for run in found if run is not None and run.source["failed"])


async def judge_run(
    cluster: Cluster, repository: RepositoryName, run: Run, retention: Retention
) -> None:
    """Mark the run as a failure of the infrastructure or as none, by all that is stored of it."""
    routing = routing_of(repository)
    run_id = derive_run_id(repository, run).hex()
    while True:
        # Read before the counting: whoever counts more and is faster makes the write below fail.
        stored, _ = await asyncio.gather(
            cluster.connection.get(cluster.layout.runs, run_id, routing=routing),
            cluster.connection.refresh(cluster.layout.executions),
        )
        query = _query_of(routing, run_id, retention)
        counts, last_at = await _count(cluster, routing, query)
        failed = is_infrastructure_failure(counts[Conclusion.PASSED], counts[Conclusion.FAILED])
        if failed == (stored is not None and stored.source["failed"]):
            return
        announced = await announce(cluster, routing, await _find_tests(cluster, routing, query))
        source = {"repository_id": routing, "run": run_id, "failed": failed, "last_at": last_at}
        try:
            await cluster.connection.put(
                cluster.layout.runs,
                run_id,
                source,
                over=None if stored is None else stored.version,
                routing=routing,
                visible=False,
            )
        except ConflictError:
            continue
        await confirm(cluster, announced)
        # Once more: who counted in between saw nothing to change, and so did not stop this write.


def _query_of(routing: str, run_id: str, retention: Retention) -> dict[str, Any]:
    filters = [{"term": {"repository_id": routing}}, {"term": {"run": run_id}}]
    return {"bool": {"filter": filters, "must_not": retention.hidden("finished_at")}}


async def _count(
    cluster: Cluster, routing: str, query: dict[str, Any]
) -> tuple[dict[Conclusion, int], int | None]:
    """How many executions of the run ended how, and when the last of them did."""
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": query,
        "aggs": {
            "conclusions": {"terms": {"field": "conclusion"}},
            "last": {"max": {"field": "finished_at"}},
        },
    }
    answer = await cluster.connection.search(
        cluster.layout.executions, body, routing=routing, patience=WRITING
    )
    counts = dict.fromkeys(Conclusion, 0)
    for bucket in answer["aggregations"]["conclusions"]["buckets"]:
        counts[Conclusion(bucket["key"])] = bucket["doc_count"]
    last = answer["aggregations"]["last"]["value"]
    return counts, None if last is None else int(last)


async def _find_tests(cluster: Cluster, routing: str, query: dict[str, Any]) -> list[str]:
    tests: list[str] = []
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        query,
        ("test_id",),
        size=_TESTS_A_PAGE,
        routing=routing,
    ):
        tests += (bucket["key"]["test_id"] for bucket in buckets)
    return tests
