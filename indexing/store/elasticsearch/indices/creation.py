"""Creates indices from their templates; writes never create an index."""

from __future__ import annotations

from typing import Any, Final

from indexing.errors import StoreUnavailableError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import BAD_REQUEST, describe, type_of
from indexing.store.elasticsearch.indices.existing import exists, find_indices
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.templates import choose_replicas

_THERE_ALREADY: Final = "resource_already_exists_exception"


async def create_missing(connection: Connection, layout: Layout) -> list[str]:
    """Create missing fixed indices, such as those that an earlier layout did not have.

    Returns their names.
    """
    missing = [name for name in layout.fixed if not await exists(connection, name)]
    for name in missing:
        await create_index(connection, name)
    return missing


async def serve_generation(connection: Connection, layout: Layout, name: str) -> list[str]:
    """Let readers use that generation, if the alias of the search index names none or several.

    Creates its index if that is missing; returns its name then.
    """
    alias, index = layout.identities, layout.identities_of(name)
    serving = await find_indices(connection, alias)
    if len(serving) == 1:
        return []
    is_missing = not await exists(connection, index)
    await create_index(connection, index)
    # Whoever restores a snapshot may have given the alias to the generation of an unfinished
    # rebuild too. Both have the rows that were written since that began.
    others = [{"remove": {"index": each, "alias": alias}} for each in serving if each != index]
    body = {"actions": [*others, {"add": {"index": index, "alias": alias}}]}
    await connection.request("POST", "/_aliases", body, timeouts=WRITING, needs="acknowledged")
    return [index] if is_missing else []


async def create_index(
    connection: Connection, name: str, body: dict[str, Any] | None = None
) -> None:
    """Create an index from its template; an existing index is not changed.

    Raises:
        StoreUnavailableError: the cluster has no room for it, or forbids it.
    """
    body = dict(body or {})
    settings = await choose_replicas(connection, name) | body.pop("settings", {})
    if settings:
        body["settings"] = settings
    try:
        answer = await connection.request(
            "PUT",
            f"/{name}",
            body,
            allow={BAD_REQUEST},
            timeouts=WRITING,
            needs="acknowledged",
        )
    except StoreUnavailableError as failure:
        raise StoreUnavailableError(f"the index {name} cannot be created: {failure}") from failure
    error = answer.get("error")
    if error is not None and type_of(error) != _THERE_ALREADY:
        # The cause lies in a template of this project or of the operator; no client can fix it.
        raise StoreUnavailableError(
            f"Elasticsearch cannot create the index {name} ({describe(error)})"
        )
