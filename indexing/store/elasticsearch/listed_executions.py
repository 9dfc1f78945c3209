"""Lists the executions of one test, newest first, from the time slices of the requested range."""

from __future__ import annotations

import uuid
from typing import Any, Final

from indexing.models.executions import Conclusion
from indexing.models.listed_executions import ExecutionKey, ExecutionQuery, ListedExecution
from indexing.models.paging import Anchor, Page
from indexing.store.elasticsearch.client import paging
from indexing.store.elasticsearch.client.clauses import any_of
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.indices.slices import indices_between
from indexing.store.elasticsearch.tests import is_test_known
from indexing.timestamps import from_microseconds, to_microseconds

# The time determines the slice, so id and time are unique together.
ORDER: Final = (FINISHED_AT, "execution_id")
FIELDS: Final = (
    "execution_id",
    FINISHED_AT,
    "conclusion",
    "needed_retries",
    "duration",
    "branch",
    "commit",
    "pipeline_name",
    "job_name",
    "run_id",
    "attempt",
    "pull_number",
    "job_url",
    "failure_id",
)


async def list_executions(
    cluster: Cluster, query: ExecutionQuery, anchor: Anchor[ExecutionKey], limit: int
) -> Page[ListedExecution] | None:
    if not await is_test_known(cluster, query.repository, query.test_id):
        return None
    if query.start >= query.end:
        return Page((), has_previous=False, has_next=False)
    retention = await cluster.control.read_retention()
    page, _ = await paging.read_page(
        cluster.connection,
        paging.List(
            index=indices_between(cluster.layout.executions_of, query.start, query.end),
            routing=routing_of(query.repository),
            query=_query_of(query, retention),
            order=ORDER,
            ascending=False,
            fields=FIELDS,
        ),
        row_of,
        beside=paging.beside_moment(FINISHED_AT, anchor.key),
        backward=anchor.backward,
        limit=limit,
    )
    return page


def _query_of(query: ExecutionQuery, retention: Retention) -> dict[str, Any]:
    start, end = to_microseconds(query.start), to_microseconds(query.end)
    filters: list[dict[str, Any]] = [
        {"term": {"repository_id": routing_of(query.repository)}},
        {"term": {"test_id": str(query.test_id)}},
        {"range": {FINISHED_AT: {"gte": start, "lt": end}}},
        *any_of(
            {
                "branch": query.branches,
                "commit": query.commits,
                "pipeline_name": query.pipelines,
                "job_name": query.jobs,
                "conclusion": [each.value for each in query.conclusions],
            }
        ),
    ]
    return {"bool": {"filter": filters, "must_not": retention.hidden(FINISHED_AT)}}


def row_of(hit: Hit) -> ListedExecution:
    source = hit["_source"]
    failure = source.get("failure_id")
    return ListedExecution(
        key=ExecutionKey(
            from_microseconds(source[FINISHED_AT]), bytes.fromhex(source["execution_id"])
        ),
        conclusion=Conclusion(source["conclusion"]),
        needed_retries=source["needed_retries"],
        duration=source.get("duration"),
        branch=source["branch"],
        commit=source["commit"],
        pipeline_name=source["pipeline_name"],
        job_name=source["job_name"],
        run_id=source["run_id"],
        attempt=source["attempt"],
        pull_number=source.get("pull_number"),
        # Documents of earlier releases lack these.
        job_url=source.get("job_url"),
        failure_id=None if failure is None else uuid.UUID(failure),
    )
