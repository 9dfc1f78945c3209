"""Copies a fixed index into a new generation, which then replaces it.

The old index is write-blocked during the copy, so no write is lost. Readers use it until an atomic
alias swap gives its name to the new one. The copy keeps the versions of documents, because
identity rows take the version of their test as an external version.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from indexing.errors import StoreError
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.client.failures import NOT_FOUND
from indexing.store.elasticsearch.indices.existing import delete_index, find_index, list_indices
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.templates import choose_replicas, resolve

_ROWS_A_PAGE: Final = 1_000
_KEPT_OPEN: Final = "5m"
# The field of the response to a change of an index.
_DONE: Final = "acknowledged"
_LOGGED_EVERY: Final = 100_000

# Converts a document of one version into the next version.
Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_log = logging.getLogger(__name__)


async def copy_index(
    connection: Connection,
    layout: Layout,
    kind: str,
    changes: Sequence[Change],
    version: int,
    still_mine: Callable[[], Awaitable[None]],
) -> None:
    """Copy all documents, converted by `changes`, into a new index that replaces the old one.

    Raises:
        StoreError: the copy is incomplete, or `still_mine` raises it; the old index stays in use.
    """
    name = f"{layout.prefix}-{kind}"
    old = await find_index(connection, name)
    new = f"{name}-v{version}-{uuid.uuid4().hex[:12]}"
    if old.startswith(f"{name}-v{version}-"):
        # An earlier upgrade swapped the alias before it was killed.
        return
    await connection.request("PUT", f"/{old}/_block/write", timeouts=WRITING, needs=_DONE)
    try:
        await _create(connection, name, new)
        await _fill(connection, old, new, changes)
        await connection.refresh(f"{old},{new}")
        counts = await connection.count(old), await connection.count(new)
        if counts[0] != counts[1]:
            raise StoreError(f"the copy of {name} has {counts[1]} documents of {counts[0]}")
        await still_mine()
    except BaseException:
        # The incomplete copy stays until `drop_leftovers`; the next attempt creates a new one.
        await _unblock(connection, old)
        raise
    swap = [{"remove_index": {"index": old}}, {"add": {"index": new, "alias": name}}]
    body = {"actions": swap}
    await connection.request("POST", "/_aliases", body, timeouts=WRITING, needs=_DONE)


async def drop_leftovers(connection: Connection, layout: Layout) -> None:
    """Delete the incomplete indices of interrupted copies."""
    for name in layout.fixed:
        copies = await list_indices(connection, f"{name}-v*")
        used = await find_index(connection, name) if copies else None
        for index in copies:
            if index != used:
                await delete_index(connection, index)


async def _create(connection: Connection, name: str, new: str) -> None:
    """Create the new index from the templates that match the old one's name."""
    form = await resolve(connection, name)
    settings = form.get("settings", {}) | await choose_replicas(connection, name)
    body = {"settings": settings, "mappings": form.get("mappings", {})}
    await connection.request("PUT", f"/{new}", body, timeouts=WRITING, needs=_DONE)


async def _fill(connection: Connection, old: str, new: str, changes: Sequence[Change]) -> None:
    done = reported = 0
    async with aclosing(_scan_all(connection, old)) as pages:
        async for hits in pages:
            operations = []
            for hit in hits:
                source = hit["_source"]
                for change in changes:
                    source = change(source)
                guard = {"version": hit["_version"], "version_type": "external"}
                operations.append(
                    Operation("index", new, hit["_id"], hit.get("_routing"), source, guard)
                )
            await bulk.send(connection, operations, visible=False)
            done += len(hits)
            if done - reported >= _LOGGED_EVERY:
                reported = done
                _log.warning("copied %d documents of %s", done, old)


async def _scan_all(connection: Connection, index: str) -> AsyncGenerator[Sequence[Hit], None]:
    """Yield all documents of an index, in pages of one point in time."""
    opened = await connection.request(
        "POST", f"/{index}/_pit?keep_alive={_KEPT_OPEN}", timeouts=WRITING, needs="id"
    )
    point = opened["id"]
    body: dict[str, Any] = {
        "size": _ROWS_A_PAGE,
        "track_total_hits": False,
        "version": True,
        "sort": [{"_shard_doc": "asc"}],
    }
    try:
        while True:
            body["pit"] = {"id": point, "keep_alive": _KEPT_OPEN}
            target = "/_search?allow_partial_search_results=false"
            answer = await connection.request(
                "POST", target, body, timeouts=WRITING, needs="pit_id"
            )
            point = answer["pit_id"]
            hits = answer["hits"]["hits"]
            if not hits:
                return
            yield hits
            body["search_after"] = hits[-1]["sort"]
    finally:
        await connection.request("DELETE", "/_pit", {"id": point}, allow={NOT_FOUND})


async def _unblock(connection: Connection, index: str) -> None:
    settings = {"index.blocks.write": None}
    await connection.request(
        "PUT", f"/{index}/_settings", settings, allow={NOT_FOUND}, timeouts=WRITING
    )
