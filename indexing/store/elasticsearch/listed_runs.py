"""Lists the runs that have stored results, newest first; `derived.run_counts` counts these."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from indexing.models.executions import Run
from indexing.models.listed_runs import ListedRun, RunKey, RunQuery
from indexing.models.paging import Anchor, Page
from indexing.store.elasticsearch.client import paging
from indexing.store.elasticsearch.client.clauses import any_of
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.derived.run_counts import SHARED
from indexing.store.elasticsearch.derived.runs import find_failed
from indexing.timestamps import from_microseconds

_ORDER: Final = (FINISHED_AT, "arrival")
_OF_RUN: Final = tuple(name for name in SHARED if name != "run")


async def list_runs(
    cluster: Cluster, query: RunQuery, anchor: Anchor[RunKey], limit: int
) -> Page[ListedRun]:
    page, _ = await paging.read_page(
        cluster.connection,
        paging.List(
            index=cluster.layout.arrivals,
            routing=routing_of(query.repository),
            query=_query_of(query),
            order=_ORDER,
            ascending=False,
            fields=("*",),
        ),
        lambda hit: hit["_source"],
        beside=paging.beside_moment(FINISHED_AT, anchor.key),
        backward=anchor.backward,
        limit=limit,
    )
    runs = {source["run"] for source in page.rows}
    failed = await find_failed(cluster, routing_of(query.repository), runs, None) if runs else ()
    rows = tuple(_arrival_of(source, failed) for source in page.rows)
    return Page(rows, page.has_previous, page.has_next)


def _query_of(query: RunQuery) -> dict[str, Any]:
    filters: list[dict[str, Any]] = [
        {"term": {"repository_id": routing_of(query.repository)}},
        *any_of(
            {
                "commit": query.commits,
                "branch": query.branches,
                "pipeline_name": query.pipelines,
                "job_name": query.jobs,
            }
        ),
    ]
    if query.pull_numbers:
        filters.append({"terms": {"pull_number": [*query.pull_numbers]}})
    return {"bool": {"filter": filters}}


def _arrival_of(source: Mapping[str, Any], failed: Collection[str]) -> ListedRun:
    return ListedRun(
        key=RunKey(from_microseconds(source[FINISHED_AT]), bytes.fromhex(source["arrival"])),
        run=Run(**{name: source[name] for name in _OF_RUN}),
        passed=source["passed"],
        failed=source["failed"],
        skipped=source["skipped"],
        is_infrastructure_failure=source["run"] in failed,
    )
