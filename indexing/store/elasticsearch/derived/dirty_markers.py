"""Dirty markers: documents that name tests whose derived values have to be computed again.

A writer writes a marker before it changes executions, and again after the change. A refresh also
computes the tests of a marker whose change is not done, but keeps the marker, because it may not
have seen the change. If the writer was killed, the marker is deleted once its deadline has passed
and the writer cannot be working any more. So no kill can lose a change.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Document, Version
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.arrivals import (
    Arrival,
    read_arrivals,
    write_arrivals,
)
from indexing.store.elasticsearch.tests import RemovedBound
from indexing.yielding import LoopYielder

# The ids of markers that a rebuild or a prune made begin with this. It judges their tests itself,
# so that loads need not.
_LATER: Final = "later-"
# The deadline of a marker before its change: longer than a write can take with all its retries.
AHEAD_SECONDS: Final = 900

# One read of markers stops after they have named this many tests, or have this many bytes of new
# executions: as Python objects, these take several times as much memory.
_TESTS_AT_ONCE: Final = 100_000
_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
# A page of markers is decoded at once, which blocks the event loop.
_MARKERS_A_PAGE: Final = 10
# A page of markers without their arrivals.
_NAMES_A_PAGE: Final = 100
# The most tests that one marker names.
_TESTS_A_PAGE: Final = 5_000


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The work of a refresh besides recomputing the tests.

    `runs` are the ids of runs to judge again, because some of their executions were stored or
    removed. `arrivals` are the arrivals of these runs to count again, each with a UTC day; None
    means all of them. `bounds` are (test, removed bound): a first or last failure or success at
    that time may come from a removed execution, so it is recomputed from the remaining executions.
    """

    bounds: frozenset[tuple[str, RemovedBound]] = frozenset()
    runs: frozenset[str] = frozenset()
    arrivals: frozenset[tuple[str, int]] | None = None


NO_FOLLOW_UP: Final = FollowUp()


@dataclass(frozen=True, slots=True)
class DirtyMarker:
    """A marker that names stale tests of one repository; `tests` is None for all of its tests.

    `ahead_until` is a deadline in seconds since 1970: until then the change may be in progress.
    `arrivals` has the new executions by test; if it is None, the tests have to be computed from all
    of their executions. `size` is about how many bytes the arrivals have as JSON. `removal` is the
    last deletion of results that the load knew of when it began; None if no load wrote the marker.
    """

    id: str
    version: Version
    routing: str
    tests: frozenset[str] | None
    ahead_until: float
    follow_up: FollowUp = NO_FOLLOW_UP
    arrivals: Mapping[str, Sequence[Arrival]] | None = field(default=None, compare=False)
    size: int = 0
    removal: str | None = None

    @property
    def is_for_later(self) -> bool:
        """Whether loads leave it to the rebuild or prune that made it."""
        return self.id.startswith(_LATER)

    @property
    def names_runs_alone(self) -> bool:
        """Whether it only has runs to count again."""
        return self.tests is not None and not self.tests

    @property
    def was_abandoned(self) -> bool:
        """Whether its writer was killed before it could say that the change is done."""
        return bool(self.ahead_until) and self.is_over

    @property
    def is_over(self) -> bool:
        """Whether its change is done, or its deadline has passed."""
        return self.ahead_until <= time.time()


def new_marker_id(*, later: bool = False) -> str:
    return f"{_LATER if later else ''}{uuid.uuid4().hex}"


async def write_markers(cluster: Cluster, operations: Sequence[Operation]) -> None:
    """Write or rewrite markers; a refresh that read an older version can no longer delete it.

    They are not visible to searches yet: readers of markers refresh the index first.
    """
    await bulk.send(cluster.connection, operations, visible=False)


def marker_operation(
    cluster: Cluster,
    marker_id: str,
    routing: str,
    tests: Iterable[str] | None,
    *,
    ahead: bool = False,
    follow_up: FollowUp = NO_FOLLOW_UP,
    arrivals: Mapping[str, Sequence[Arrival]] | None = None,
    removal: str | None = None,
) -> Operation:
    """Return the write of a marker as a bulk operation; too large arrivals are left out."""
    source: dict[str, Any] = {
        "repository_id": routing,
        "mark": marker_id,
        "tests": None if tests is None else sorted(tests),
        "ahead_until": time.time() + AHEAD_SECONDS if ahead else 0,
    }
    if follow_up != NO_FOLLOW_UP:
        bounds = [(test, *bound) for test, bound in follow_up.bounds]
        source["removed"] = {
            "bounds": [[test, moment] for test, moment, _ in bounds],
            "branches": [branch for _, _, branch in bounds],
            "runs": sorted(follow_up.runs),
        }
        if follow_up.arrivals is not None:
            source["removed"]["arrivals"] = sorted(follow_up.arrivals)
    if removal is not None:
        source["removal"] = removal
    written = None if arrivals is None else write_arrivals(arrivals)
    if written is not None:
        source |= {"arrivals": written.by_test, "arrivals_size": written.size}
    return Operation("index", cluster.layout.stale, marker_id, None, source)


async def mark_repository(
    cluster: Cluster, routing: str, *, ahead: bool = False, later: bool = False
) -> None:
    """Mark all tests of a repository as dirty; with `later`, loads leave them to the caller."""
    # The fixed id keeps one marker for each repository.
    marker_id = f"{_LATER if later else ''}all-{routing}"
    marker = marker_operation(cluster, marker_id, routing, None, ahead=ahead)
    await write_markers(cluster, [marker])


@dataclass(frozen=True, slots=True)
class MarkedTests:
    """Tests that are marked for a change in progress."""

    marker_id: str
    routing: str
    tests: Sequence[str]


async def mark_before(
    cluster: Cluster, routing: str, tests: Sequence[str], *, later: bool = False
) -> list[MarkedTests]:
    """Mark tests before a change; call `mark_after` once the change is done.

    With `later`, loads leave them to the caller.
    """
    marked = [
        MarkedTests(new_marker_id(later=later), routing, tests[start : start + _TESTS_A_PAGE])
        for start in range(0, len(tests), _TESTS_A_PAGE)
    ]
    await _write_marked(cluster, marked, ahead=True)
    return marked


async def mark_after(cluster: Cluster, marked: Iterable[MarkedTests]) -> None:
    """Mark the tests again after the change, so that the next refresh sees it."""
    await _write_marked(cluster, marked, ahead=False)


async def _write_marked(cluster: Cluster, marked: Iterable[MarkedTests], *, ahead: bool) -> None:
    markers = [
        marker_operation(cluster, each.marker_id, each.routing, each.tests, ahead=ahead)
        for each in marked
    ]
    await write_markers(cluster, markers)


async def mark_again(
    cluster: Cluster, handled: Iterable[DirtyMarker], failed: Collection[str]
) -> None:
    """Mark those of the failed tests that these markers name, before the markers are deleted."""
    operations = []
    for marker in handled:
        tests = frozenset(failed).intersection(marker.tests or ())
        if tests:
            bounds = frozenset(each for each in marker.follow_up.bounds if each[0] in tests)
            follow_up = FollowUp(bounds) if bounds else NO_FOLLOW_UP
            marker_id = new_marker_id(later=marker.is_for_later)
            operations.append(
                marker_operation(cluster, marker_id, marker.routing, tests, follow_up=follow_up)
            )
    if operations:
        await write_markers(cluster, operations)


async def mark_runs(cluster: Cluster, routing: str, runs: Collection[str]) -> None:
    """Mark runs to be counted again."""
    if runs:
        follow_up = FollowUp(runs=frozenset(runs))
        marker = marker_operation(cluster, new_marker_id(), routing, (), follow_up=follow_up)
        await write_markers(cluster, [marker])


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


def marker_search(cluster: Cluster, routing: str | None, *, with_later: bool = True) -> Search:
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
    later = {"prefix": {"mark": _LATER}}
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
        document.id,
        document.version,
        source["repository_id"],
        None if tests is None else frozenset(tests),
        source["ahead_until"],
        _follow_up_of(source.get("removed")),
        read_arrivals(source.get("arrivals")),
        # A marker of an earlier release does not say it, so the limit does not hold for these.
        source.get("arrivals_size", 0),
        source.get("removal"),
    )


def collect_arrivals(markers: Sequence[DirtyMarker]) -> dict[str, list[Arrival]]:
    """Return the new executions by test, for tests whose markers contain all that changed."""
    unknown: set[str] = set()
    arrivals: dict[str, list[Arrival]] = {}
    for marker in markers:
        if marker.arrivals is None:
            unknown |= marker.tests or frozenset()
        else:
            for test, new in marker.arrivals.items():
                arrivals.setdefault(test, []).extend(new)
    return {test: new for test, new in arrivals.items() if test not in unknown}


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


def dropping(cluster: Cluster, markers: Sequence[DirtyMarker]) -> list[Operation]:
    """Return the deletions of those markers whose change is over.

    A marker that was rewritten since it was read is not deleted.
    """
    return [
        Operation("delete", cluster.layout.stale, marker.id, None, guard=marker.version.parameters)
        for marker in markers
        if marker.is_over
    ]


async def spell_out(cluster: Cluster, marker: DirtyMarker) -> None:
    """Replace the marker of a whole repository by markers that name its tests."""
    await cluster.connection.refresh(cluster.layout.tests)
    body = {
        "size": _TESTS_A_PAGE,
        "query": {"term": {"repository_id": marker.routing}},
        "sort": [{"test_id": "asc"}],
        "_source": False,
    }
    async for hits in scan(cluster.connection, cluster.layout.tests, body, routing=marker.routing):
        if hits:
            tests = [hit["_id"] for hit in hits]
            marker_id = new_marker_id(later=marker.is_for_later)
            part = marker_operation(cluster, marker_id, marker.routing, tests)
            await write_markers(cluster, [part])
    await bulk.send(cluster.connection, dropping(cluster, [marker]), visible=False)


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
