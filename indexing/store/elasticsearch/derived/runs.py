"""Runs that failed as a whole: one document for each that ever did, with its current state."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from indexing.health.rules import is_infrastructure_failure
from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.client.concurrency import run_both
from indexing.store.elasticsearch.client.connection import WRITING, ConflictError, Document
from indexing.store.elasticsearch.client.scanning import scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.dirty_markers import mark_after, mark_before
from indexing.store.elasticsearch.indices.retention import Retention

_TESTS_A_PAGE: Final = 5_000
# Each run takes up to four buckets of a response.
_RUNS_AT_ONCE: Final = 1_000


async def find_failed(cluster: Cluster, routing: str, runs: Collection[str]) -> frozenset[str]:
    """Return which of these runs failed as a whole."""
    places = [(cluster.layout.runs, run, routing) for run in runs]
    found = await cluster.connection.get_many(places, patience=WRITING)
    return frozenset(run.id for run in found if run is not None and run.source["failed"])


@dataclass(frozen=True, slots=True)
class _Results:
    """The stored results of one run: how many tests passed and failed, and the last finish time."""

    passed: int = 0
    failed: int = 0
    last_at: int | None = None


async def judge_runs(
    cluster: Cluster, routing: str, runs: Collection[str], searchable: Awaitable[None]
) -> bool:
    """Mark runs as infrastructure failures, or unmark them, by all of their stored executions.

    The executions are searchable once `searchable` is done. Returns whether the state of any run
    changed. One request counts many runs.
    """
    turned = False
    waiting = list(runs)
    for start in range(0, len(waiting), _RUNS_AT_ONCE):
        some = waiting[start : start + _RUNS_AT_ONCE]
        turned |= await _judge_some(cluster, routing, some, searchable)
    return turned


async def _judge_some(
    cluster: Cluster, routing: str, runs: Sequence[str], searchable: Awaitable[None]
) -> bool:
    turned = False
    while True:
        # Read before counting: if another process counts more and writes first, the write below
        # fails with a conflict.
        places = [(cluster.layout.runs, run, routing) for run in runs]
        (state, stored), _ = await run_both(cluster.control.read_with(places), searchable)
        counted = await _count(cluster, routing, runs, state.retention)
        changed = [
            (run, document, counted[run])
            for run, document in zip(runs, stored, strict=True)
            if _is_failure(counted[run]) != (document is not None and document.source["failed"])
        ]
        for run, document, results in changed:
            await _turn(cluster, routing, run, document, results, state.retention)
        if not changed:
            return turned
        # Count once more: a process that counted in the meantime may have seen nothing to change,
        # and so caused no conflict.
        turned = True
        runs = [run for run, _, _ in changed]
        searchable = cluster.connection.refresh(cluster.layout.executions)


async def _turn(
    cluster: Cluster,
    routing: str,
    run: str,
    document: Document | None,
    results: _Results,
    retention: Retention,
) -> None:
    """Store the new state of a run, unless another process has judged it in the meantime."""
    query = _query_of(routing, [run], retention)
    marked = await mark_before(cluster, routing, await _find_tests(cluster, routing, query))
    source = {
        "repository_id": routing,
        "run": run,
        "failed": _is_failure(results),
        "last_at": results.last_at,
    }
    try:
        await cluster.connection.put(
            cluster.layout.runs,
            run,
            source,
            over=None if document is None else document.version,
            routing=routing,
            visible=False,
        )
    except ConflictError:
        return
    await mark_after(cluster, marked)


def _is_failure(results: _Results) -> bool:
    return is_infrastructure_failure(results.passed, results.failed)


def _query_of(routing: str, runs: Sequence[str], retention: Retention) -> dict[str, Any]:
    filters = [{"term": {"repository_id": routing}}, {"terms": {"run": list(runs)}}]
    return {"bool": {"filter": filters, "must_not": retention.hidden("finished_at")}}


async def _count(
    cluster: Cluster, routing: str, runs: Sequence[str], retention: Retention
) -> dict[str, _Results]:
    """Count the stored results of each of these runs."""
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": _query_of(routing, runs, retention),
        "aggs": {
            "runs": {
                "terms": {"field": "run", "size": len(runs)},
                "aggs": {
                    "conclusions": {"terms": {"field": "conclusion"}},
                    "last": {"max": {"field": "finished_at"}},
                },
            }
        },
    }
    answer = await cluster.connection.search(
        cluster.layout.executions, body, routing=routing, patience=WRITING
    )
    counted = dict.fromkeys(runs, _Results())
    for bucket in answer.get("aggregations", {}).get("runs", {"buckets": []})["buckets"]:
        counts = {b["key"]: b["doc_count"] for b in bucket["conclusions"]["buckets"]}
        counted[bucket["key"]] = _Results(
            counts.get(Conclusion.PASSED, 0),
            counts.get(Conclusion.FAILED, 0),
            int(bucket["last"]["value"]),
        )
    return counted


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
