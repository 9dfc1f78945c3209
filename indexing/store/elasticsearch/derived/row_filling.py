"""Computes the metrics of search rows that an earlier release wrote without them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from indexing.store.elasticsearch.client.scanning import scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import dirty_markers
from indexing.store.elasticsearch.derived.refresh import refresh_tests

_REPOSITORIES_A_PAGE: Final = 1_000
_UNFILLED: Final[dict[str, Any]] = {"bool": {"must_not": [{"exists": {"field": "health_status"}}]}}


async def fill_rows(cluster: Cluster, now: datetime) -> None:
    """Compute the tests of all repositories that have rows without metrics; usually there are none.

    If the call is killed, dirty markers or such rows remain, and the next call handles them.
    """
    index = cluster.layout.identities
    body = {"size": 1, "query": _UNFILLED, "_source": False, "track_total_hits": False}
    if not (await cluster.connection.search(index, body))["hits"]["hits"]:
        return
    found: list[str] = []
    async for buckets in scan_groups(
        cluster.connection, index, _UNFILLED, ("repository_id",), size=_REPOSITORIES_A_PAGE
    ):
        found += (bucket["key"]["repository_id"] for bucket in buckets)
    for routing in found:
        await dirty_markers.mark_repository(cluster, routing, later=True)
    await refresh_tests(cluster, now)
