"""Lists the files of a repository's tests."""

from __future__ import annotations

from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.scanning import GROUPS, groups_body
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.search.aggregation import search_rows
from indexing.store.elasticsearch.search.query import FILE, key_of


async def list_filepaths(
    cluster: Cluster, repository: RepositoryName, after: str | None, limit: int
) -> list[str]:
    routing = routing_of(repository)
    body = groups_body(
        {"term": {"repository_id": routing}},
        (FILE,),
        size=limit,
        after=None if after is None else {FILE: key_of(routing, after)},
    )
    answer = await search_rows(cluster, repository, body)
    buckets = answer["aggregations"][GROUPS]["buckets"]
    return [bucket["key"][FILE].partition("\0")[2] for bucket in buckets]
