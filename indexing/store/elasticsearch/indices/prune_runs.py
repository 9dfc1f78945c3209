"""The record of the last retention run: one document of the control index."""

from __future__ import annotations

from typing import Final

from indexing.pruning import PruneRun, from_record, to_record
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.indices.layout import Layout

_DOCUMENT: Final = "prune"


async def get_prune_run(connection: Connection, layout: Layout) -> PruneRun | None:
    return _run_of(await connection.get(layout.control, _DOCUMENT))


async def replace_prune_run(
    connection: Connection, layout: Layout, seen: PruneRun | None, run: PruneRun
) -> bool:
    document = await connection.get(layout.control, _DOCUMENT)
    if _run_of(document) != seen:
        return False
    over = None if document is None else document.version
    source = {"kind": "prune", **to_record(run)}
    try:
        await connection.put(layout.control, _DOCUMENT, source, over=over, visible=False)
    except ConflictError:
        return False
    return True


def _run_of(document: Document | None) -> PruneRun | None:
    return None if document is None else from_record(document.source)
