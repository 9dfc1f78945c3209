"""Documents of application keys, found by the digest of the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from indexing.models.keys import ApplicationKey, Scope
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.repositories import ensure_repository
from indexing.timestamps import (
    from_microseconds,
    microseconds_or_none,
    moment_or_none,
    to_microseconds,
)

KIND: Final = "key"
_PAGE: Final = 1_000


def document_id(digest: bytes) -> str:
    return f"key:{digest.hex()}"


async def find_key(cluster: Cluster, digest: bytes) -> ApplicationKey | None:
    found = await cluster.connection.get(cluster.layout.control, document_id(digest))
    return None if found is None else _key_of(found.source)


async def get_key(cluster: Cluster, key_id: str) -> ApplicationKey | None:
    hit = await _find_by_id(cluster, key_id)
    # A search may find an older version of the document, so read the current one.
    found = None if hit is None else await cluster.connection.get(cluster.layout.control, hit)
    return None if found is None else _key_of(found.source)


async def list_keys(cluster: Cluster) -> list[ApplicationKey]:
    keys: list[ApplicationKey] = []
    body = {
        "size": _PAGE,
        "query": {"term": {"kind": KIND}},
        "sort": [{"created_at": "asc"}, {"key_id": "asc"}],
    }
    async for hits in scan(cluster.connection, cluster.layout.control, body):
        keys += [_key_of(hit["_source"]) for hit in hits]
    return keys


async def add_key(cluster: Cluster, key: ApplicationKey) -> None:
    if key.repository is not None:
        await ensure_repository(cluster, RepositoryName(key.owner, key.repository))
    await cluster.connection.put(cluster.layout.control, document_id(key.digest), _source_of(key))


async def revoke_key(cluster: Cluster, key_id: str, now: datetime) -> bool:
    document = await _find_by_id(cluster, key_id)
    if document is None:
        return False
    await _revoke(cluster, document, now)
    return True


async def _find_by_id(cluster: Cluster, key_id: str) -> str | None:
    """Return the document id of the key with that id; None if there is none."""
    query = {"bool": {"filter": [{"term": {"kind": KIND}}, {"term": {"key_id": key_id}}]}}
    answer = await cluster.connection.search(cluster.layout.control, {"size": 1, "query": query})
    return next((str(hit["_id"]) for hit in answer["hits"]["hits"]), None)


async def _revoke(cluster: Cluster, document: str, now: datetime) -> None:
    while True:
        found = await cluster.connection.get(cluster.layout.control, document)
        if found is None or found.source["revoked_at"] is not None:
            return
        revoked = replace(_key_of(found.source), revoked_at=now)
        try:
            await cluster.connection.put(
                cluster.layout.control, document, _source_of(revoked), over=found.version
            )
        except ConflictError:
            continue
        return


def _source_of(key: ApplicationKey) -> dict[str, Any]:
    return {
        "kind": KIND,
        "key_id": key.id,
        "digest": key.digest.hex(),
        "name": key.name,
        "scope": key.scope.value,
        "owner": key.owner,
        "repository": key.repository,
        "created_at": to_microseconds(key.created_at),
        "expires_at": microseconds_or_none(key.expires_at),
        "revoked_at": microseconds_or_none(key.revoked_at),
    }


def _key_of(source: Mapping[str, Any]) -> ApplicationKey:
    return ApplicationKey(
        id=source["key_id"],
        name=source["name"],
        scope=Scope(source["scope"]),
        owner=source["owner"],
        repository=source["repository"],
        digest=bytes.fromhex(source["digest"]),
        created_at=from_microseconds(source["created_at"]),
        expires_at=moment_or_none(source["expires_at"]),
        revoked_at=moment_or_none(source["revoked_at"]),
    )
