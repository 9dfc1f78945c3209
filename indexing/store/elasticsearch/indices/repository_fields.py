"""Adds fields to repositories that an earlier release stored without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Connection, Version
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.indices.layout import Layout

_REPOSITORIES_A_PAGE: Final = 1_000


def name_keys(owner: str, name: str) -> dict[str, str]:
    """Return the fields by which lists of repositories filter and sort."""
    return {"owner_key": owner.lower(), "name_key": name.lower()}


async def fill_names(
    connection: Connection, layout: Layout, renew: Callable[[], Awaitable[None]]
) -> None:
    """Add the name fields to each repository without them.

    If the call is interrupted, a repeated call handles the remaining ones. `renew` is called after
    each page.
    """
    await connection.refresh(layout.control)
    body = {
        "size": _REPOSITORIES_A_PAGE,
        "query": {
            "bool": {
                "filter": [{"term": {"kind": "repository"}}],
                "must_not": [{"exists": {"field": "name_key"}}],
            }
        },
        "sort": [{"repository_id": "asc"}],
        "seq_no_primary_term": True,
    }
    async for hits in scan(connection, layout.control, body):
        operations = [
            Operation(
                "index",
                layout.control,
                hit["_id"],
                None,
                {**hit["_source"], **name_keys(hit["_source"]["owner"], hit["_source"]["name"])},
                Version.of(hit).parameters,
            )
            for hit in hits
        ]
        await bulk.send(connection, operations, visible=False)
        await renew()
    await connection.refresh(layout.control)
