"""The test search over the identity index."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Final

from indexing import globs
from indexing.identifiers import derive_identity_id
from indexing.models.paging import Anchor, Page
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery
from indexing.names import RepositoryName
from indexing.store.elasticsearch import paging
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.connection import TooComplexError
from indexing.store.elasticsearch.search_query import ORDERS, Width, make_query, values_of

_KEY_FIELDS: Final = ("executions_count", "test_name", "pipeline_name", "job_name")


async def search_tests(
    cluster: Cluster, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    for width in (Width.EXACT, Width.WIDENED):
        try:
            return await _search(cluster, query, anchor, limit, width=width)
        except TooComplexError:
            continue
    return await _search(cluster, query, anchor, limit, width=Width.PREFIX)


async def _search(
    cluster: Cluster,
    query: TestQuery,
    anchor: Anchor[IdentityKey],
    limit: int,
    *,
    width: Width,
) -> Page[TestIdentity]:
    routing = routing_of(query.repository)
    key = anchor.key
    page, _ = await paging.read_page(
        cluster.connection,
        paging.List(
            index=cluster.layout.identities,
            routing=routing,
            query=make_query(query, routing, width=width),
            order=ORDERS[query.sort],
            ascending=not query.descending,
            fields=("test_id", *_KEY_FIELDS),
        ),
        _row_of,
        beside=None if key is None else _beside(query, key),
        backward=anchor.backward,
        limit=limit,
        keep=partial(_matches, query.patterns) if width is not Width.EXACT else None,
    )
    return page


async def find_identity(
    cluster: Cluster, repository: RepositoryName, identity_id: bytes
) -> IdentityKey | None:
    found = await cluster.connection.get(
        cluster.layout.identities, identity_id.hex(), routing=routing_of(repository)
    )
    if found is None or found.source["repository_id"] != routing_of(repository):
        return None
    return _key_of(found.source)


def _beside(query: TestQuery, key: IdentityKey) -> paging.Beside:
    identity_id = derive_identity_id(
        query.repository, key.test_name, key.pipeline_name, key.job_name
    )
    # With another count it is the same row in another place.
    count = {"term": {"executions_count": key.executions_count}}
    itself = {"bool": {"filter": [{"ids": {"values": [identity_id.hex()]}}, count]}}
    return paging.Beside(values_of(key, query.sort), itself)


def _matches(patterns: tuple[str, ...], row: TestIdentity) -> bool:
    return any(globs.matches(pattern, row.key.test_name) for pattern in patterns)


def _row_of(hit: paging.Hit) -> TestIdentity:
    source = hit["_source"]
    return TestIdentity(bytes.fromhex(hit["_id"]), uuid.UUID(source["test_id"]), _key_of(source))


def _key_of(source: paging.Hit) -> IdentityKey:
    return IdentityKey(*(source[field] for field in _KEY_FIELDS))
