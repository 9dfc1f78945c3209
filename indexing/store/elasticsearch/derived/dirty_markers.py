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
from dataclasses import dataclass, field, replace
from typing import Any, Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.marked_executions import (
    MarkedExecution,
    write_executions,
)
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.tests import RemovedBound

# The ids of markers that a rebuild or a prune made begin with this. It judges their tests itself,
# so that loads need not.
LATER_PREFIX: Final = "later-"
# The deadline of a marker before its change: longer than a write can take with all its retries.
AHEAD_SECONDS: Final = 900

# The most tests that one marker names.
TESTS_A_MARKER: Final = 5_000


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
    `executions` has the new ones by test; if it is None, the tests have to be computed from all of
    their executions. `size` is about how many bytes the new ones have as JSON. `removal` is the
    last deletion of results that the load knew of when it began; None if no load wrote the marker.
    `epoch` is the number of retention runs that it knew of.
    """

    id: str
    version: Version
    routing: str
    tests: frozenset[str] | None
    ahead_until: float
    follow_up: FollowUp = NO_FOLLOW_UP
    executions: Mapping[str, Sequence[MarkedExecution]] | None = field(default=None, compare=False)
    size: int = 0
    removal: str | None = None
    epoch: int = 0

    @property
    def is_for_later(self) -> bool:
        """Whether loads leave it to the rebuild or prune that made it."""
        return self.id.startswith(LATER_PREFIX)

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

    def find_pruned(self, retention: Retention) -> frozenset[str]:
        """Return the tests with new executions that retention has dropped since the load began."""
        if self.executions is None or self.epoch >= retention.epoch:
            return frozenset()
        return frozenset(
            test
            for test, new in self.executions.items()
            if any(
                retention.is_dropped({**each.facts, "epoch": self.epoch}, FINISHED_AT)
                for each in new
                if each.facts is not None
            )
        )


def new_marker_id(*, later: bool = False) -> str:
    return f"{LATER_PREFIX if later else ''}{uuid.uuid4().hex}"


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
    executions: Mapping[str, Sequence[MarkedExecution]] | None = None,
    removal: str | None = None,
    epoch: int | None = None,
) -> Operation:
    """Return the write of a marker as a bulk operation; too large executions are left out."""
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
    if epoch is not None:
        source["epoch"] = epoch
    written = None if executions is None else write_executions(executions)
    if written is not None:
        # These are the names of earlier releases.
        source |= {"arrivals": written.by_test, "arrivals_size": written.size}
    return Operation("index", cluster.layout.stale, marker_id, None, source)


async def mark_changed(
    cluster: Cluster,
    routing: str,
    tests: Iterable[str],
    *,
    follow_up: FollowUp = NO_FOLLOW_UP,
    removal: str | None = None,
) -> None:
    """Mark tests after a change that needed no marker before it, by a marker of its own."""
    marker_id = new_marker_id()
    marker = marker_operation(
        cluster, marker_id, routing, tests, follow_up=follow_up, removal=removal
    )
    await write_markers(cluster, [marker])


async def mark_repository(
    cluster: Cluster, routing: str, *, ahead: bool = False, later: bool = False
) -> None:
    """Mark all tests of a repository as dirty; with `later`, loads leave them to the caller."""
    # The fixed id keeps one marker for each repository.
    marker_id = f"{LATER_PREFIX if later else ''}all-{routing}"
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
        MarkedTests(new_marker_id(later=later), routing, tests[start : start + TESTS_A_MARKER])
        for start in range(0, len(tests), TESTS_A_MARKER)
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


async def narrow_to_failed(
    cluster: Cluster, handled: Iterable[DirtyMarker], failed: Collection[str]
) -> list[DirtyMarker]:
    """Let each marker with failed tests name these alone; return the other markers.

    The marker keeps its id, because markers are read in the order of their ids: a refresh that is
    reading them would miss one with a new id before its place. A marker whose change is in progress
    stays as it is.
    """
    others, operations = [], []
    for marker in handled:
        tests = frozenset(failed).intersection(marker.tests or ())
        if not tests:
            others.append(marker)
        elif marker.is_over:
            bounds = frozenset(each for each in marker.follow_up.bounds if each[0] in tests)
            follow_up = FollowUp(bounds) if bounds else NO_FOLLOW_UP
            narrowed = marker_operation(
                cluster, marker.id, marker.routing, tests, follow_up=follow_up
            )
            operations.append(replace(narrowed, guard=marker.version.parameters))
    if operations:
        await write_markers(cluster, operations)
    return others


async def mark_runs(cluster: Cluster, routing: str, runs: Collection[str]) -> None:
    """Mark runs to be counted again."""
    if runs:
        await mark_changed(cluster, routing, (), follow_up=FollowUp(runs=frozenset(runs)))


def list_deletions(cluster: Cluster, markers: Sequence[DirtyMarker]) -> list[Operation]:
    """Return the deletions of those markers whose change is over.

    A marker that was rewritten since it was read is not deleted.
    """
    return [
        Operation("delete", cluster.layout.stale, marker.id, None, guard=marker.version.parameters)
        for marker in markers
        if marker.is_over
    ]
