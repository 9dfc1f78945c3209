"""Replaces the dirty marker of a whole repository by markers that name its tests, page by page.

A rebuild that was killed leaves such pages. The marker of the next rebuild names the same tests, so
it replaces these pages too, and no test is computed twice. This is safe beside other rebuilds and
prunes:

- A page is deleted only after newer pages are stored that name all of its tests. They are computed
  after the newer marker was written, so they do whatever the older page was for.
- Pages sort after the marker that they replace, and after the pages of older markers. A refresh
  reads markers in this order, so it finds a deleted page's tests in a later one.
- A page stays if one of its tests is not registered any more, because new pages do not name it.
- Markers of loads and prunes are never deleted here.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.connection import Document
from indexing.store.elasticsearch.client.existing_ids import find_existing
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.dirty_markers import (
    LATER_PREFIX,
    TESTS_A_MARKER,
    DirtyMarker,
    dropping,
    marker_operation,
    new_marker_id,
    write_markers,
)
from indexing.store.elasticsearch.derived.stored_markers import parse_markers

# It sorts after "later-all-", the id of the marker of a whole repository.
_PAGE_PREFIX: Final = f"{LATER_PREFIX}page-"
# A page of markers is decoded at once, which blocks the event loop.
_MARKERS_A_PAGE: Final = 10


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
    covered = await _drop_covered(cluster, marker) if marker.is_for_later else set[str]()
    await bulk.send(cluster.connection, dropping(cluster, [marker]), visible=False)
    return covered


def _page_id_of(marker: DirtyMarker) -> str:
    if not marker.is_for_later:
        return new_marker_id()
    return f"{_first_page_of(marker)}-{uuid.uuid4().hex}"


def _first_page_of(marker: DirtyMarker) -> str:
    """Return the start of the ids of its pages.

    Each write of a marker has a higher sequence number than those before it.
    """
    return f"{_PAGE_PREFIX}{marker.version.seq_no:016x}"


async def _drop_covered(cluster: Cluster, marker: DirtyMarker) -> set[str]:
    """Delete the pages of older markers whose tests are all registered; return their ids."""
    older = {"range": {"mark": {"gte": _PAGE_PREFIX, "lt": _first_page_of(marker)}}}
    body: dict[str, Any] = {
        "size": _MARKERS_A_PAGE,
        "query": {"bool": {"filter": [{"term": {"repository_id": marker.routing}}, older]}},
        "sort": [{"mark": "asc"}],
        "seq_no_primary_term": True,
    }
    dropped: set[str] = set()
    async for hits in scan(cluster.connection, cluster.layout.stale, body):
        pages = await parse_markers(Document.of(hit) for hit in hits)
        # A test that was registered after the new pages were written has a marker of its load.
        covered = [page for page in pages if await _are_registered(cluster, page)]
        await bulk.send(cluster.connection, dropping(cluster, covered), visible=False)
        dropped.update(page.id for page in covered)
    return dropped


async def _are_registered(cluster: Cluster, page: DirtyMarker) -> bool:
    tests: Sequence[str] = sorted(page.tests or ())
    found = await find_existing(cluster.connection, cluster.layout.tests, tests, page.routing)
    return len(found) == len(tests)
