"""Deletes stored results, and marks what is derived from them.

The bounds of a test (first failure, last failure, last success) outlive their executions. So the
dirty markers before and after a deletion list the bounds that may come from deleted executions,
with their branches, and the runs to judge again. The next refresh handles both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import dirty_markers
from indexing.store.elasticsearch.derived.dirty_markers import FollowUp
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.repositories import note_removal
from indexing.store.elasticsearch.tests import RemovedBound

_ROWS_A_PAGE: Final = 5_000


async def delete_results(
    cluster: Cluster,
    routing: str,
    query: Mapping[str, Any],
    select: Callable[[Sequence[Hit]], Awaitable[Sequence[Hit]]] | None = None,
) -> int:
    """Delete the executions that a query finds, or those that `select` leaves of them.

    Returns their number.
    """
    body = {
        "size": _ROWS_A_PAGE,
        "query": query,
        "sort": [{FINISHED_AT: "asc"}, {"execution_id": "asc"}],
        "_source": ["test_id", "run", "branch", FINISHED_AT],
    }
    deleted = 0
    pages = scan(cluster.connection, cluster.layout.executions, body, routing=routing)
    async with aclosing(pages):
        async for hits in pages:
            found = hits if select is None else await select(hits)
            if found:
                deleted += await _delete(cluster, routing, found)
    return deleted


async def _delete(cluster: Cluster, routing: str, hits: Sequence[Hit]) -> int:
    sources = [hit["_source"] for hit in hits]
    marker_id = dirty_markers.new_marker_id()
    tests = {source["test_id"] for source in sources}
    follow_up = FollowUp(
        frozenset(
            (source["test_id"], RemovedBound(source[FINISHED_AT], source["branch"]))
            for source in sources
        ),
        frozenset(source["run"] for source in sources),
    )
    before, after = (
        dirty_markers.marker_operation(
            cluster, marker_id, routing, tests, ahead=ahead, follow_up=follow_up
        )
        for ahead in (True, False)
    )
    await dirty_markers.write_markers(cluster, [before])
    operations = [Operation("delete", hit["_index"], hit["_id"], routing) for hit in hits]
    outcomes = await bulk.send(cluster.connection, operations, visible=False)
    await note_removal(cluster, routing)
    await dirty_markers.write_markers(cluster, [after])
    return sum(outcome.status == 200 for outcome in outcomes)
