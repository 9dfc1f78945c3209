"""Replaces the dirty marker of a whole repository by markers that name its tests, page by page.

A rebuild that was killed leaves such pages. The marker of the next rebuild names the same tests, so
it replaces these pages too, and no test is computed twice. This is safe beside other rebuilds and
prunes:

- A page is deleted only after newer pages are stored that name its tests. They are computed after
  the newer marker was written, so they do whatever the older page was for.
- New pages sort after those that they replace, and after the marker of the rebuild. A refresh reads
  markers in this order, so it finds a deleted page's tests in a later one.
- Only tests that were forgotten since are in no newer page. There is nothing to compute for them.
- Markers of loads and prunes are never deleted here.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.dirty_markers import (
    LATER_PREFIX,
    TESTS_A_MARKER,
    DirtyMarker,
    list_deletions,
    marker_operation,
    new_marker_id,
    write_markers,
)

# It sorts after "later-all-", the id of the marker of a whole repository.
_PAGE_PREFIX: Final = f"{LATER_PREFIX}page-"
_DELETED_AT_ONCE: Final = 1_000


async def spell_out(cluster: Cluster, marker: DirtyMarker) -> set[str]:
    """Replace the marker of a whole repository, and older pages of it, by new pages.

    Returns the ids of the older pages.
    """
    await cluster.connection.refresh(cluster.layout.tests)
    body = {
        "size": TESTS_A_MARKER,
        "query": {"term": {"repository_id": marker.routing}},
        "sort": [{"test_id": "asc"}],
        "_source": False,
    }
    async for hits in scan(cluster.connection, cluster.layout.tests, body, routing=marker.routing):
        if hits:
            tests = [hit["_id"] for hit in hits]
            page = marker_operation(cluster, _page_id_of(marker), marker.routing, tests)
            await write_markers(cluster, [page])
    older = await _drop_older(cluster, marker) if marker.is_for_later else set[str]()
    await bulk.send(cluster.connection, list_deletions(cluster, [marker]), visible=False)
    return older


def _page_id_of(marker: DirtyMarker) -> str:
    if not marker.is_for_later:
        return new_marker_id()
    return f"{_first_page_of(marker)}-{uuid.uuid4().hex}"


def _first_page_of(marker: DirtyMarker) -> str:
    """Return the start of the ids of its pages.

    Each write of a marker has a higher sequence number than those before it.
    """
    return f"{_PAGE_PREFIX}{marker.version.seq_no:016x}"


async def _drop_older(cluster: Cluster, marker: DirtyMarker) -> set[str]:
    """Delete the pages of older markers; return their ids."""
    older = {"range": {"mark": {"gte": _PAGE_PREFIX, "lt": _first_page_of(marker)}}}
    body: dict[str, Any] = {
        "size": _DELETED_AT_ONCE,
        "query": {"bool": {"filter": [{"term": {"repository_id": marker.routing}}, older]}},
        "sort": [{"mark": "asc"}],
        "_source": False,
    }
    dropped: set[str] = set()
    index = cluster.layout.stale
    async for hits in scan(cluster.connection, index, body):
        pages = [hit["_id"] for hit in hits]
        deletions = [Operation("delete", index, page, None) for page in pages]
        await bulk.send(cluster.connection, deletions, visible=False)
        dropped.update(pages)
    return dropped
