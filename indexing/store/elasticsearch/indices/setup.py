"""Creates missing indices, and refuses a cluster that this program cannot use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from indexing.errors import StoreUnavailableError, StoreVersionError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import NOT_FOUND, ConflictError
from indexing.store.elasticsearch.indices.control import (
    STORE_DOCUMENT,
    Control,
    new_state,
    version_error,
)
from indexing.store.elasticsearch.indices.creation import (
    create_index,
    create_missing,
    serve_generation,
)
from indexing.store.elasticsearch.indices.existing import exists, list_indices
from indexing.store.elasticsearch.indices.filling import restore_settings
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, MIN_SERVER_MAJOR, Layout
from indexing.store.elasticsearch.indices.templates import ensure_templates
from indexing.store.elasticsearch.indices.upgrade import upgrade

FIRST_GENERATION: Final = "1"


async def ensure_layout(connection: Connection, layout: Layout) -> None:
    """Create or upgrade the indices; any number of processes may do so at once.

    Raises:
        StoreVersionError: the server is too old, or the indices have a newer version.
    """
    await _check_server(connection)
    document = await _find_store(connection, layout)
    if document is not None:
        if document["version"] < LAYOUT_VERSION:
            await upgrade(connection, layout)
        elif document["version"] > LAYOUT_VERSION:
            raise version_error(document["version"])
        elif not all(map(layout.is_of_executions, document["slices"])):
            # A snapshot that was restored under another prefix names the indices of its original,
            # whose results must not count as stored here.
            own = await list_indices(connection, layout.executions)
            await Control(connection, layout).replace_slices(own)
        # Restoring a snapshot brings back the indices but not the templates.
        await ensure_templates(connection, layout)
        if document["building"] is not None:
            # The rebuild may have been killed. Without replicas, a single lost node would make
            # writes to this index fail.
            await restore_settings(connection, layout.identities_of(document["building"]))
        return
    # Templates come first, because new indices are created from them. The store document comes
    # last, because it marks the layout as complete.
    await ensure_templates(connection, layout)
    generation = layout.identities_of(FIRST_GENERATION)
    await asyncio.gather(
        *(create_index(connection, name) for name in layout.fixed),
        create_index(connection, generation, {"aliases": {layout.identities: {}}}),
    )
    try:
        await connection.put(layout.control, STORE_DOCUMENT, new_state(FIRST_GENERATION))
    except ConflictError:
        # Another process has just created it.
        return


async def find_version(urls: Sequence[str], *, prefix: str, api_key: str | None) -> int | None:
    """Return the layout version in the cluster without upgrading it; None if there is no store."""
    connection = Connection(urls, api_key)
    try:
        document = await _find_store(connection, Layout(prefix))
    finally:
        await connection.close()
    if document is None:
        return None
    version: int = document["version"]
    return version


async def create_lost(urls: Sequence[str], *, prefix: str, api_key: str | None) -> list[str]:
    """Create the missing indices of a store, empty; return their names.

    The search index of an earlier version gets its alias back, which the upgrade needs. The rest is
    for a store of this version.

    Only an operator may ask for this: while an index is missing, reads of it are unavailable.

    Raises:
        StoreUnavailableError: the index of tests is missing. An empty one would mean that all tests
            were forgotten, and results of forgotten tests are deleted.
    """
    connection, layout = Connection(urls, api_key), Layout(prefix)
    try:
        document = await _find_store(connection, layout)
        if document is None or document["version"] > LAYOUT_VERSION:
            return []
        generation: str = document["identities"]
        if document["version"] < LAYOUT_VERSION:
            if await exists(connection, layout.identities_of(generation)):
                await serve_generation(connection, layout, generation)
            return []
        if not await exists(connection, layout.tests):
            raise StoreUnavailableError(
                f"the index {layout.tests} is missing, and only a snapshot has what it contained"
            )
        await ensure_templates(connection, layout)
        fixed = await create_missing(connection, layout)
        return fixed + await serve_generation(connection, layout, generation)
    finally:
        await connection.close()


async def _find_store(connection: Connection, layout: Layout) -> dict[str, Any] | None:
    """Return the store document, which exists once the layout is complete."""
    found = await connection.request(
        "GET",
        f"/{layout.control}/_doc/{STORE_DOCUMENT}",
        allow={NOT_FOUND},
        timeouts=WRITING,
        needs="found",
    )
    return found["_source"] if found.get("found") else None


async def _check_server(connection: Connection) -> None:
    answer = await connection.request(
        "GET", "/_nodes/_all/none?filter_path=nodes.*.version", timeouts=WRITING, needs="nodes"
    )
    for node in answer["nodes"].values():
        version = node["version"]
        if int(version.partition(".")[0]) < MIN_SERVER_MAJOR:
            raise StoreVersionError(
                f"the Elasticsearch there is of version {version};"
                f" this program needs {MIN_SERVER_MAJOR}.0 or later"
            )
