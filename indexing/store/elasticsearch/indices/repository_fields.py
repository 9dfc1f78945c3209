"""Adds fields to repositories that an earlier release stored without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices.added_fields import add_fields
from indexing.store.elasticsearch.indices.layout import Layout


def name_keys(owner: str, name: str) -> dict[str, str]:
    """Return the fields by which lists of repositories filter and sort."""
    return {"owner_key": owner.lower(), "name_key": name.lower()}


async def fill_names(
    connection: Connection, layout: Layout, renew: Callable[[], Awaitable[None]]
) -> None:
    """Add the name fields to each repository without them."""
    await add_fields(
        connection,
        layout.control,
        "name_key",
        [{"repository_id": "asc"}],
        _fields_of,
        renew,
        among=[{"term": {"kind": "repository"}}],
    )


def _fields_of(source: Mapping[str, Any]) -> dict[str, str]:
    return name_keys(source["owner"], source["name"])
