"""Documents of runs that failed as a whole.

Each run that ever did has one document, with its current state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from indexing.health.rules import is_infrastructure_failure
from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.client.connection import WRITING, Timeouts
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.dirty_markers import mark_after, mark_before
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.indices.retention import Retention

_TESTS_A_PAGE: Final = 5_000
# The runs of one search. Each takes up to four buckets of the response, which a cluster limits.
_RUNS_AT_ONCE: Final = 1_000


def failed_of(documents: Iterable[Document | None]) -> frozenset[str]:
    """Return the ids of those runs that failed as a whole, given the documents of runs."""
    return frozenset(run.id for run in documents if run is not None and run.source["failed"])


async def find_failed(
    cluster: Cluster,
    routing: str,
    runs: Collection[str],
    timeouts: Timeouts | None = WRITING,
) -> frozenset[str]:
    """Return which of these runs failed as a whole; `timeouts` are as in `scan`."""
    places = [Place(cluster.layout.runs, run, routing) for run in runs]
    found = await cluster.connection.get_many(places, timeouts=timeouts)
    return failed_of(found)


def results_query(routing: str, runs: Collection[str], retention: Retention) -> dict[str, Any]:
    """Return the query for the results of these runs."""
    filters = [{"term": {"repository_id": routing}}, {"terms": {"run": [*runs]}}]
    return {"bool": {"filter": filters, "must_not": retention.hidden(FINISHED_AT)}}


@dataclass(frozen=True, slots=True)
class ResultsOfRun:
    """The stored results of one run: how many tests passed and failed, and the last finish time."""

    passed: int = 0
    failed: int = 0
    last_at: int | None = None


async def judge_runs(
    cluster: Cluster,
    routing: str,
    documents: Mapping[str, Document | None],
    counted: Mapping[str, ResultsOfRun],
    retention: Retention,
) -> bool:
    """Judge by all stored executions which runs are infrastructure failures, and store changes.

    `documents` must be read before the results are counted: if another process counts newer results
    and writes first, the write conflicts. Returns whether the state of any run changed.
    """
    has_changed = False
    while True:
        changed = [
            (run, document, counted.get(run, ResultsOfRun()))
            for run, document in documents.items()
            if _is_failure(counted.get(run, ResultsOfRun()))
            != (document is not None and document.source["failed"])
        ]
        for run, document, results in changed:
            await _store_state(cluster, routing, run, document, results, retention)
        if not changed:
            return has_changed
        # Count once more: a process that counted in the meantime may have seen nothing to change,
        # and so caused no conflict.
        has_changed = True
        runs = [run for run, _, _ in changed]
        places = [Place(cluster.layout.runs, run, routing) for run in runs]
        state, stored = await cluster.control.read_with(places)
        retention = state.retention
        documents = dict(zip(runs, stored, strict=True))
        await cluster.connection.refresh(cluster.layout.executions)
        counted = await _count(cluster, routing, runs, retention)


async def _store_state(
    cluster: Cluster,
    routing: str,
    run: str,
    document: Document | None,
    results: ResultsOfRun,
    retention: Retention,
) -> None:
    """Store the new state of a run, unless another process has judged it in the meantime."""
    query = results_query(routing, [run], retention)
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


def _is_failure(results: ResultsOfRun) -> bool:
    return is_infrastructure_failure(results.passed, results.failed)


async def _count(
    cluster: Cluster, routing: str, runs: Sequence[str], retention: Retention
) -> dict[str, ResultsOfRun]:
    """Count the stored results by run; runs without any are left out."""
    counted: dict[str, ResultsOfRun] = {}
    for start in range(0, len(runs), _RUNS_AT_ONCE):
        some = runs[start : start + _RUNS_AT_ONCE]
        within = {
            "conclusions": {"terms": {"field": "conclusion"}},
            "last": {"max": {"field": FINISHED_AT}},
        }
        terms = {"terms": {"field": "run", "size": len(some)}, "aggs": within}
        body = {
            "size": 0,
            "track_total_hits": False,
            "query": results_query(routing, some, retention),
            "aggs": {"runs": terms},
        }
        answer = await cluster.connection.search(
            cluster.layout.executions, body, routing=routing, timeouts=WRITING
        )
        for bucket in answer.get("aggregations", {}).get("runs", {"buckets": []})["buckets"]:
            counts = {b["key"]: b["doc_count"] for b in bucket["conclusions"]["buckets"]}
            counted[bucket["key"]] = ResultsOfRun(
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
