"""Finds, lists and deletes existing indices."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import NOT_FOUND
from indexing.store.elasticsearch.client.places import WILDCARDS


async def exists(connection: Connection, name: str) -> bool:
    """Return whether there is an index or alias of that name."""
    found = await _resolve(connection, name, allow={NOT_FOUND})
    return "error" not in found and bool(_names_in(found))


async def list_indices(connection: Connection, pattern: str) -> list[str]:
    """Return the sorted names of the indices that match the pattern."""
    return sorted(each["name"] for each in (await _resolve(connection, pattern))["indices"])


async def find_index(connection: Connection, name: str) -> str:
    """Return the only index that has that name or alias.

    Raises:
        StoreError: there is none.
    """
    (index,) = _names_in(await _resolve(connection, name))
    return index


async def delete_index(connection: Connection, name: str) -> None:
    """Delete an index; a missing one is ignored."""
    target = f"/{name}?ignore_unavailable=true"
    await connection.request("DELETE", target, timeouts=WRITING, needs="acknowledged")


async def _resolve(connection: Connection, name: str, allow: Collection[int] = ()) -> Any:
    """Return the indices and aliases that have that name, or match that pattern."""
    target = f"/_resolve/index/{name}?expand_wildcards={WILDCARDS}"
    # Even if there are none, a node lists them: an answer without any may be one of a proxy.
    return await connection.request("GET", target, allow=allow, timeouts=WRITING, needs="indices")


def _names_in(found: Any) -> list[str]:
    """Return the names of the indices in a response, and of those that its aliases name."""
    names = [each["name"] for each in found["indices"]]
    return names + [index for each in found["aliases"] for index in each["indices"]]
