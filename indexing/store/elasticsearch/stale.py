"""Marks of tests whose executions changed since what is derived of them was worked out.

A mark is made ahead of the change and once more after it. One that was made ahead is worked out
like any other and not taken away: its change may not have been seen yet. If its writer was killed,
it is taken away when no writer can be at it any more. So no kill can lose a change.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from indexing.store.elasticsearch import bulk
from indexing.store.elasticsearch.bulk import Operation
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.connection import Version
from indexing.store.elasticsearch.scanning import scan

# Longer than one write takes with every wait for a cluster that puts it off.
AHEAD_SECONDS: Final = 900

# How many tests the marks that are read at once may name, and how many of them one mark names.
_TESTS_AT_ONCE: Final = 100_000
_MARKS_A_PAGE: Final = 100
_TESTS_A_PAGE: Final = 5_000


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What has to be done besides working the tests out.

    `runs` have to be judged anew: executions of theirs were stored or removed. `bounds` are (test,
    microseconds): a first or last failure or success that stands there may be of a removed
    execution, and is worked out anew of what is left.
    """

    bounds: frozenset[tuple[str, int]] = frozenset()
    runs: frozenset[str] = frozenset()


NO_FOLLOW_UP: Final = FollowUp()


@dataclass(frozen=True, slots=True)
class Mark:
    """Some stale tests of one repository, by their ids; all of its tests, where it is `None`."""

    id: str
    version: Version
    routing: str
    tests: frozenset[str] | None
    ahead_until: float
    follow_up: FollowUp = NO_FOLLOW_UP

    @property
    def is_over(self) -> bool:
        """Whether the change that it announces is done, or will never be."""
        return self.ahead_until <= time.time()


def new_mark_id() -> str:
    return uuid.uuid4().hex


async def mark_tests(
    cluster: Cluster,
    mark_id: str,
    routing: str,
    tests: Iterable[str] | None,
    *,
    ahead: bool = False,
    follow_up: FollowUp = NO_FOLLOW_UP,
) -> None:
    """Make a mark, or make it anew: nobody who read it before can then take it away.

    Whoever reads marks from then on finds it.
    """
    operation = marking(cluster, mark_id, routing, tests, ahead=ahead, follow_up=follow_up)
    await bulk.send(cluster.connection, [operation], visible=True)


def marking(
    cluster: Cluster,
    mark_id: str,
    routing: str,
    tests: Iterable[str] | None,
    *,
    ahead: bool = False,
    follow_up: FollowUp = NO_FOLLOW_UP,
) -> Operation:
    """The same as one operation of a bulk, which may leave it to be found later."""
    source: dict[str, Any] = {
        "repository_id": routing,
        "mark": mark_id,
        "tests": None if tests is None else sorted(tests),
        "ahead_until": time.time() + AHEAD_SECONDS if ahead else 0,
    }
    if follow_up != NO_FOLLOW_UP:
        source["removed"] = {"bounds": sorted(follow_up.bounds), "runs": sorted(follow_up.runs)}
    return Operation("index", cluster.layout.stale, mark_id, None, source)


async def mark_repository(cluster: Cluster, routing: str, *, ahead: bool = False) -> None:
    """Mark all tests of a repository."""
    # One is enough however often it is asked for.
    await mark_tests(cluster, f"all-{routing}", routing, None, ahead=ahead)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A mark that was made ahead of a change to these tests."""

    mark_id: str
    routing: str
    tests: Sequence[str]


async def announce(cluster: Cluster, routing: str, tests: Sequence[str]) -> list[Announcement]:
    """Mark tests ahead of a change; `confirm` is to be told of it once the change is done."""
    announced = [
        Announcement(new_mark_id(), routing, tests[start : start + _TESTS_A_PAGE])
        for start in range(0, len(tests), _TESTS_A_PAGE)
    ]
    for each in announced:
        await mark_tests(cluster, each.mark_id, routing, each.tests, ahead=True)
    return announced


async def confirm(cluster: Cluster, announced: Iterable[Announcement]) -> None:
    """Mark the tests once more, after the change: whoever works them out sees it."""
    for each in announced:
        await mark_tests(cluster, each.mark_id, each.routing, each.tests)


async def read_marks(
    cluster: Cluster, routing: str | None, *, refresh: bool
) -> tuple[list[Mark], bool]:
    """Marks of one repository or of any, the marks of a repository together.

    Not all of them where they name very many tests; also tells whether there are more. What they
    are about has to be made searchable afterwards, not before: what was stored in between would be
    seen by nobody, and its mark taken away.

    Without `refresh`, a mark of `marking` that was not made anew since, as its writer was killed,
    may not be found yet; and one that was dropped may be found still.
    """
    if refresh:
        await cluster.connection.refresh(cluster.layout.stale)
    body: dict[str, Any] = {
        "size": _MARKS_A_PAGE,
        "sort": [{"repository_id": "asc"}, {"mark": "asc"}],
        "seq_no_primary_term": True,
    }
    if routing is not None:
        body["query"] = {"term": {"repository_id": routing}}
    marks: list[Mark] = []
    more = False
    seen = 0
    async with aclosing(scan(cluster.connection, cluster.layout.stale, body)) as pages:
        async for hits in pages:
            for hit in hits:
                source = hit["_source"]
                tests = source["tests"]
                marks.append(
                    Mark(
                        hit["_id"],
                        Version(hit["_seq_no"], hit["_primary_term"]),
                        source["repository_id"],
                        None if tests is None else frozenset(tests),
                        source["ahead_until"],
                        _follow_up_of(source.get("removed")),
                    )
                )
                seen += _TESTS_AT_ONCE if tests is None else len(tests)
            more = len(hits) == _MARKS_A_PAGE
            if seen >= _TESTS_AT_ONCE:
                break
    return marks, more


def _follow_up_of(source: Mapping[str, Any] | None) -> FollowUp:
    if source is None:
        return NO_FOLLOW_UP
    bounds = frozenset((test, moment) for test, moment in source["bounds"])
    return FollowUp(bounds, frozenset(source["runs"]))


async def drop_marks(cluster: Cluster, marks: Sequence[Mark]) -> None:
    """Take marks away, save those ahead of a change and those made anew since they were read."""
    operations = [
        Operation("delete", cluster.layout.stale, mark.id, None, guard=mark.version.parameters)
        for mark in marks
        if mark.is_over
    ]
    await bulk.send(cluster.connection, operations, visible=False)


async def spell_out(cluster: Cluster, mark: Mark) -> None:
    """Put marks that name its tests in place of one for a whole repository."""
    await cluster.connection.refresh(cluster.layout.tests)
    body = {
        "size": _TESTS_A_PAGE,
        "query": {"term": {"repository_id": mark.routing}},
        "sort": [{"test_id": "asc"}],
        "_source": False,
    }
    async for hits in scan(cluster.connection, cluster.layout.tests, body, routing=mark.routing):
        if hits:
            await mark_tests(cluster, new_mark_id(), mark.routing, [hit["_id"] for hit in hits])
    await drop_marks(cluster, [mark])


async def count_stale(cluster: Cluster) -> int:
    """How many tests wait; those of a mark for a whole repository are all of its tests."""
    tests: dict[str, set[str]] = {}
    whole: set[str] = set()
    body = {"size": _MARKS_A_PAGE, "sort": [{"repository_id": "asc"}, {"mark": "asc"}]}
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
