"""Deletes all documents that a query finds, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.scanning import scan

_DOCUMENTS_A_PAGE: Final = 5_000


async def delete_all(
    connection: Connection, index: str, query: Mapping[str, Any], order: Sequence[str]
) -> None:
    """Delete the documents; every search that begins afterwards sees that.

    `order` are the fields to sort by, of which the last one is unique.
    """
    body = {
        "size": _DOCUMENTS_A_PAGE,
        "query": query,
        "sort": [{field: "asc"} for field in order],
        "_source": False,
    }
    async for hits in scan(connection, index, body):
        operations = [Operation("delete", index, hit["_id"], hit.get("_routing")) for hit in hits]
        await bulk.send(connection, operations, visible=True)
