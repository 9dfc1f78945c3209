"""Reads everything that the refresh of one repository needs, in as few requests as possible.

Documents are read before the searches, so a write of another process in between causes a version
conflict.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.places import Place, Search
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import auto_quarantine, run_counts, stored_markers
from indexing.store.elasticsearch.derived.dirty_markers import DirtyMarker
from indexing.store.elasticsearch.derived.marked_executions import MarkedExecution
from indexing.store.elasticsearch.derived.run_counts import Counted
from indexing.store.elasticsearch.indices.control import State
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.quarantine_slots import QuarantineSlot
from indexing.store.elasticsearch.repositories import document_routed, removal_of
from indexing.store.elasticsearch.tests import RemovedBound


@dataclass(frozen=True, slots=True)
class Work:
    """The work that some markers of one repository name together.

    `new` has the new executions by test, for tests of which all changes are known. `arrivals` are
    the arrivals to count again, each with a UTC day; None if the markers do not name them.
    `removed` has the bounds that may come from removed executions by test. `loads` are the markers
    of loads; those of large loads of an earlier release are left out.
    """

    tests: Sequence[str]
    new: Mapping[str, Sequence[MarkedExecution]]
    runs: Sequence[str]
    arrivals: frozenset[tuple[str, int]] | None
    removed: Mapping[str, Collection[RemovedBound]]
    loads: Sequence[DirtyMarker]

    @classmethod
    def of(cls, markers: Sequence[DirtyMarker]) -> Work:
        follow_ups = [marker.follow_up for marker in markers]
        removed: dict[str, set[RemovedBound]] = {}
        arrivals: set[tuple[str, int]] | None = set()
        for follow_up in follow_ups:
            for test, bound in follow_up.bounds:
                removed.setdefault(test, set()).add(bound)
            if follow_up.arrivals is None and follow_up.runs:
                arrivals = None
            elif arrivals is not None:
                arrivals |= follow_up.arrivals or frozenset()
        return cls(
            sorted(frozenset[str]().union(*(marker.tests or () for marker in markers))),
            stored_markers.collect_executions(markers),
            sorted(frozenset[str]().union(*(each.runs for each in follow_ups))),
            None if arrivals is None else frozenset(arrivals),
            removed,
            [marker for marker in markers if marker.removal is not None or marker.executions],
        )

    def new_in(self, documents: Documents) -> Mapping[str, Sequence[MarkedExecution]]:
        """Return the new executions by test, without tests of which some may be gone."""
        removal, retention = removal_of(documents.repository), documents.state.retention
        # An earlier release does not say which removal a load knew of.
        outdated = [each for each in self.loads if (each.removal or "") != removal]
        unknown = frozenset[str]().union(
            *(each.tests or () for each in outdated),
            *(each.find_pruned(retention) for each in self.loads),
        )
        if not unknown:
            return self.new
        return {test: new for test, new in self.new.items() if test not in unknown}

    def lost_in(self, documents: Documents, tests: Iterable[str]) -> frozenset[str]:
        """Return which of these tests may have been forgotten while results of them arrived.

        Loads register their tests before they store results.
        """
        missing = frozenset(tests).difference(documents.tests)
        if not missing:
            return missing
        over = (each.tests or () for each in self.loads if each.is_over)
        return missing.intersection(frozenset[str]().union(*over))


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of one repository that a refresh needs; missing tests are left out.

    `remembered` are the tests whose documents were not read, because this process wrote them last.
    """

    state: State
    repository: Document
    tests: Mapping[str, Document]
    runs: Mapping[str, Document | None]
    counts: Mapping[Counted, Document | None]
    markers: Mapping[str, Document | None]
    remembered: frozenset[str]


async def read_documents(
    cluster: Cluster,
    routing: str,
    tests: Collection[str],
    runs: Collection[str] = (),
    arrivals: Collection[tuple[str, int]] = (),
    markers: Collection[str] = (),
    *,
    merged: Collection[str],
) -> Documents:
    """Read all these documents in one request.

    Tests of `merged` that this process remembers are not read. If another process has written one,
    new executions are merged in vain; to compute it from all executions in vain would take long.

    Raises:
        StoreError: the repository has no document.
    """
    layout = cluster.layout
    counted = run_counts.list_places(cluster, routing, arrivals)
    asked = [test for test in tests if test in merged]
    remembered = await cluster.written_tests.find(routing, asked)
    kinds = [
        [Place(layout.control, document_routed(routing))],
        [Place(layout.tests, test, routing) for test in tests if test not in remembered],
        [Place(layout.runs, run, routing) for run in runs],
        counted,
        [Place(layout.stale, marker) for marker in markers],
    ]
    state, found = await cluster.control.read_with([place for kind in kinds for place in kind])
    documents = iter(found)
    by_kind: list[dict[str, Document | None]] = [
        {place.id: next(documents) for place in kind} for kind in kinds
    ]
    (repository,), stored, of_runs, counts, of_markers = (list(by_kind[0].values()), *by_kind[1:])
    if repository is None:
        raise StoreError("a repository is gone from Elasticsearch")
    # A test may be missing: its writer was killed between the marker and the test.
    there = {test: document for test, document in stored.items() if document is not None}
    there |= remembered
    by_place = {(place.index, place.id): counts[place.id] for place in counted}
    known = frozenset(remembered)
    return Documents(state, repository, there, of_runs, by_place, of_markers, known)


@dataclass(frozen=True, slots=True)
class Searched:
    """The results of the searches; `is_more` if the repository has markers besides those given."""

    counted: Mapping[Counted, Mapping[str, Any]]
    slots: Mapping[str, QuarantineSlot]
    is_more: bool


async def search_all(
    cluster: Cluster,
    routing: str,
    tests: Sequence[str],
    runs: Sequence[str],
    retention: Retention,
    searchable: Awaitable[None],
    markers: Collection[str],
) -> Searched:
    """Count the results of these runs, and find the quarantines of these tests.

    If `markers` is not empty, this also looks for markers besides those. All searches wait for
    `searchable`.
    """
    at_once = run_counts.RUNS_AT_ONCE
    searches: list[Search] = []
    if runs:
        searches.append(run_counts.counts_search(cluster, routing, runs[:at_once], retention))
    if tests:
        searches.append(auto_quarantine.slots_search(cluster, routing, tests))
    if markers:
        searches.append(stored_markers.other_markers_search(cluster, routing, markers))
    await searchable
    answers = iter(
        await cluster.connection.search_many(searches, timeouts=WRITING) if searches else ()
    )
    counted: dict[Counted, Mapping[str, Any]] = {}
    for start in range(0, len(runs), at_once):
        first = None if start else next(answers)
        counted |= await run_counts.read_counts(
            cluster, routing, runs[start : start + at_once], retention, first
        )
    slots: dict[str, QuarantineSlot] = {}
    if tests:
        slots = await auto_quarantine.read_slots_of(cluster, routing, tests, next(answers))
    is_more = bool(markers) and bool(next(answers)["hits"]["hits"])
    return Searched(counted, slots, is_more)
