"""Adds up the rows of the identity index in the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexing.names import RepositoryName
from indexing.store.elasticsearch.cluster import Cluster, routing_of


async def search_rows(cluster: Cluster, repository: RepositoryName, body: Mapping[str, Any]) -> Any:
    """Run a search that reads all rows of a repository; expensive searches are queued."""
    async with cluster.searches.slot():
        return await cluster.connection.search(
            cluster.layout.identities, body, routing=routing_of(repository)
        )
