"""Counts the tests of a repository by health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.cluster import Cluster, routing_of

# Only a scrape of the metrics waits for this search, so it may take longer than a reader would
# wait.
_COUNTING_SECONDS: Final = 8


async def count_tests(cluster: Cluster, repository: RepositoryName) -> Mapping[HealthStatus, int]:
    routing = routing_of(repository)
    body = {
        "size": 0,
        "timeout": f"{_COUNTING_SECONDS}s",
        "query": {"term": {"repository_id": routing}},
        # The field is not indexed: this reads it from each document.
        "runtime_mappings": {"health_status": {"type": "keyword"}},
        "aggs": {"health": {"terms": {"field": "health_status", "size": len(HealthStatus)}}},
    }
    await cluster.connection.refresh(cluster.layout.tests)
    answer = await cluster.connection.search(
        cluster.layout.tests, body, routing=routing, timeouts=WRITING
    )
    return dict.fromkeys(HealthStatus, 0) | {
        HealthStatus(bucket["key"]): bucket["doc_count"]
        for bucket in answer["aggregations"]["health"]["buckets"]
    }
