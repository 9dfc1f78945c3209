"""Documents of CODEOWNERS files.

They are not part of the repositories' documents, because those are read often.
"""

from __future__ import annotations

from indexing.models.repositories import check_code_owners
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.repositories import ensure_repository


async def set_code_owners(cluster: Cluster, name: RepositoryName, text: str | None) -> None:
    source = {
        "kind": "code_owners",
        "repository_id": routing_of(name),
        "text": None if text is None else check_code_owners(text),
    }
    await ensure_repository(cluster, name)
    place = (cluster.layout.control, _document_id(name))
    while True:
        found = await cluster.connection.get(*place)
        try:
            await cluster.connection.put(
                *place, source, over=None if found is None else found.version, visible=False
            )
        except ConflictError:
            continue
        return


async def get_code_owners(cluster: Cluster, repository: RepositoryName) -> str | None:
    found = await cluster.connection.get(cluster.layout.control, _document_id(repository))
    return None if found is None else found.source["text"]


def _document_id(name: RepositoryName) -> str:
    return f"code_owners:{routing_of(name)}"
