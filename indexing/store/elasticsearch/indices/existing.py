"""Lists and deletes existing indices."""

from __future__ import annotations

from indexing.store.elasticsearch.client.connection import WRITING, Connection


async def list_indices(connection: Connection, pattern: str) -> list[str]:
    """Return the sorted names of the indices that match the pattern, or that its alias names."""
    target = f"/{pattern}/_settings?filter_path=*.settings.index.uuid"
    return sorted(await connection.request("GET", target, timeouts=WRITING))


async def delete_index(connection: Connection, name: str) -> None:
    """Delete an index; a missing one is ignored."""
    await connection.request("DELETE", f"/{name}?ignore_unavailable=true", timeouts=WRITING)
