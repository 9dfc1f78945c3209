"""Finds and reads dirty markers (`dirty_markers.py` says what they are)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import repeat
from typing import Any, Final

from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.dirty_markers import (
    LATER_PREFIX,
    NO_FOLLOW_UP,
    DirtyMarker,
    FollowUp,
)
from indexing.store.elasticsearch.derived.marked_executions import MarkedExecution, read_executions
from indexing.store.elasticsearch.tests import RemovedBound
from indexing.yielding import LoopYielder

# One read of markers stops after they have named this many tests, or have this many bytes of new
# executions: as Python objects, these take several times as much memory.
_TESTS_AT_ONCE: Final = 100_000
_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
# A page of markers is decoded at once, which blocks the event loop.
_MARKERS_A_PAGE: Final = 10
# A page of markers without their executions.
_NAMES_A_PAGE: Final = 100


async def read_markers(
    cluster: Cluster,
    routing: str | None,
    handled: Collection[DirtyMarker] = (),
    *,
    with_later: bool = True,
) -> tuple[list[DirtyMarker], bool]:
    """Return markers of one repository or of all, by repository, and whether there are more.

    Leaves out those in `handled` and, without `with_later`, those of a rebuild or a prune. Stops
    early if the markers name very many tests or are large. Refresh the index of executions after
    this call, not before: otherwise a refresh may miss an execution that was stored in between, and
    still delete its marker.
    """
    await cluster.connection.refresh(cluster.layout.stale)
    search = marker_search(cluster, routing, with_later=with_later)
    markers: list[DirtyMarker] = []
    more = False
    tests = size = 0
    async with aclosing(scan(cluster.connection, search.index, search.body)) as pages:
        async for hits in pages:
            parsed = await parse_markers(Document.of(hit) for hit in hits)
            found = [marker for marker in parsed if marker not in handled]
            markers += found
            tests += sum(_TESTS_AT_ONCE if m.tests is None else len(m.tests) for m in found)
            size += sum(marker.size for marker in found)
            more = len(hits) == _MARKERS_A_PAGE
            if tests >= _TESTS_AT_ONCE or size >= _BYTES_AT_ONCE:
                break
    return markers, more


def marker_search(cluster: Cluster, routing: str | None, *, with_later: bool) -> Search:
    """Return the search for the first page of markers."""
    body: dict[str, Any] = {
        "size": _MARKERS_A_PAGE,
        "sort": [{"repository_id": "asc"}, {"mark": "asc"}],
        "seq_no_primary_term": True,
    }
    if routing is not None:
        of_all = {"term": {"repository_id": routing}}
        body["query"] = of_all if with_later else _of_loads(routing)
    return Search(cluster.layout.stale, body)


def other_markers_search(cluster: Cluster, routing: str, ids: Collection[str]) -> Search:
    """Return the search that finds out whether the repository has other markers than these."""
    mine = {"ids": {"values": [*ids]}}
    query = {"bool": {"filter": [_of_loads(routing)], "must_not": [mine]}}
    body = {"size": 1, "_source": False, "track_total_hits": False, "query": query}
    return Search(cluster.layout.stale, body)


def _of_loads(routing: str) -> dict[str, Any]:
    """Return the query for the markers of a repository that are not for later."""
    later = {"prefix": {"mark": LATER_PREFIX}}
    return {"bool": {"filter": [{"term": {"repository_id": routing}}], "must_not": [later]}}


async def parse_markers(documents: Iterable[Document]) -> list[DirtyMarker]:
    """Parse markers; those of a large upload have tens of thousands of executions."""
    markers = []
    yielder = LoopYielder()
    for document in documents:
        markers.append(_parse_marker(document))
        await yielder.yield_if_due()
    return markers


def _parse_marker(document: Document) -> DirtyMarker:
    source = document.source
    tests = source["tests"]
    return DirtyMarker(
        id=document.id,
        version=document.version,
        routing=source["repository_id"],
        tests=None if tests is None else frozenset(tests),
        ahead_until=source["ahead_until"],
        follow_up=_follow_up_of(source.get("removed")),
        executions=read_executions(source.get("arrivals")),
        # A marker of an earlier release does not say it, so the limit does not hold for these.
        size=source.get("arrivals_size", 0),
        removal=source.get("removal"),
        # A marker of an earlier release does not say it.
        epoch=source.get("epoch", 0),
    )


def _follow_up_of(source: Mapping[str, Any] | None) -> FollowUp:
    if source is None:
        return NO_FOLLOW_UP
    # Markers of an earlier release have no branches.
    branches = source.get("branches") or repeat(None)
    bounds = frozenset(
        (test, RemovedBound(moment, branch))
        for (test, moment), branch in zip(source["bounds"], branches, strict=False)
    )
    # Markers of a removal contain no arrivals, and neither do markers of an earlier release.
    named = source.get("arrivals")
    arrivals = None if named is None else frozenset((arrival, day) for arrival, day in named)
    return FollowUp(bounds, frozenset(source["runs"]), arrivals)


def collect_executions(markers: Sequence[DirtyMarker]) -> dict[str, list[MarkedExecution]]:
    """Return the new executions by test, for tests whose markers contain all that changed."""
    unknown: set[str] = set()
    executions: dict[str, list[MarkedExecution]] = {}
    for marker in markers:
        if marker.executions is None:
            unknown |= marker.tests or frozenset()
        else:
            for test, new in marker.executions.items():
                executions.setdefault(test, []).extend(new)
    return {test: new for test, new in executions.items() if test not in unknown}


async def names_test(cluster: Cluster, routing: str, test_id: str) -> bool:
    """Return whether a marker names this test: whether it may be stale."""
    await cluster.connection.refresh(cluster.layout.stale)
    body = {
        "size": _NAMES_A_PAGE,
        "query": {"term": {"repository_id": routing}},
        "sort": [{"mark": "asc"}],
        "_source": ["tests"],
    }
    async with aclosing(scan(cluster.connection, cluster.layout.stale, body)) as pages:
        async for hits in pages:
            for hit in hits:
                named: Collection[str] | None = hit["_source"]["tests"]
                if named is None or test_id in named:
                    return True
    return False


async def count_stale(cluster: Cluster) -> int:
    """Count the stale tests; a marker of a whole repository counts all of its tests."""
    tests: dict[str, set[str]] = {}
    whole: set[str] = set()
    body = {
        "size": _NAMES_A_PAGE,
        "sort": [{"repository_id": "asc"}, {"mark": "asc"}],
        "_source": ["repository_id", "tests"],
    }
    async for hits in scan(cluster.connection, cluster.layout.stale, body):
        for hit in hits:
            named: Collection[str] | None = hit["_source"]["tests"]
            if named is None:
                whole.add(hit["_source"]["repository_id"])
            else:
                tests.setdefault(hit["_source"]["repository_id"], set()).update(named)
    counted = sum(len(named) for routing, named in tests.items() if routing not in whole)
    for routing in whole:
        counted += await cluster.connection.count(
            cluster.layout.tests, {"term": {"repository_id": routing}}, routing=routing
        )
    return counted
