"""Finds, lists and deletes existing indices."""

from __future__ import annotations

from typing import Final

from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import NOT_FOUND

# One setting that each index has.
_UUID: Final = "_settings?filter_path=*.settings.index.uuid"


async def exists(connection: Connection, name: str) -> bool:
    """Return whether there is an index or alias of that name."""
    target = f"/{name}/{_UUID}"
    answer = await connection.request("GET", target, allow={NOT_FOUND}, timeouts=WRITING)
    return any(isinstance(each, dict) and "settings" in each for each in answer.values())


async def list_indices(connection: Connection, pattern: str) -> list[str]:
    """Return the sorted names of the indices that match the pattern, or that its alias names."""
    return sorted(await connection.request("GET", f"/{pattern}/{_UUID}", timeouts=WRITING))


async def delete_index(connection: Connection, name: str) -> None:
    """Delete an index; a missing one is ignored."""
    await connection.request("DELETE", f"/{name}?ignore_unavailable=true", timeouts=WRITING)
