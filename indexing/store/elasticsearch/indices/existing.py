"""Finds, lists and deletes existing indices."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from indexing.errors import StoreUnavailableError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import NOT_FOUND
from indexing.store.elasticsearch.client.places import WILDCARDS


async def exists(connection: Connection, name: str) -> bool:
    """Return whether there is an index or alias of that name."""
    return bool(await find_indices(connection, name))


async def list_indices(connection: Connection, pattern: str) -> list[str]:
    """Return the sorted names of the indices that match the pattern."""
    return sorted(each["name"] for each in (await _resolve(connection, pattern))["indices"])


async def find_index(connection: Connection, name: str) -> str:
    """Return the only index that has that name or alias.

    Raises:
        StoreError: there is none, or several.
    """
    found = _names_in(await _resolve(connection, name))
    if len(found) != 1:
        raise StoreUnavailableError(
            f"{name} is the name of {len(found)} indices, not of one;"
            " `mergewatch index create` repairs that"
        )
    return found[0]


async def find_indices(connection: Connection, name: str) -> list[str]:
    """Return the indices that have that name or alias."""
    found = await _resolve(connection, name, allow={NOT_FOUND})
    return [] if "error" in found else _names_in(found)


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
