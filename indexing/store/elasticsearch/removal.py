"""Removes executions on behalf of an operator, and updates or deletes their tests.

If the process is killed at any point, a marker remains, or executions that the next call finds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from indexing.accepted_times import AcceptedTimes
from indexing.identifiers import derive_run_id, derive_test_id
from indexing.models.executions import Run
from indexing.models.selections import ExecutionSelection, SelectionExtent
from indexing.models.tests import TestHealth, TestMetadata
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived import dirty_markers
from indexing.store.elasticsearch.derived.changes import list_deletions
from indexing.store.elasticsearch.derived.dirty_markers import FollowUp
from indexing.store.elasticsearch.derived.forgotten_tests import withdraw_automatic
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.derived.refresh import refresh_tests
from indexing.store.elasticsearch.derived.removed_results import delete_results
from indexing.store.elasticsearch.derived.results import row_id_of
from indexing.store.elasticsearch.quarantine_slots import (
    QuarantineSlot,
    slot_of_hit,
    try_write_slot,
)
from indexing.store.elasticsearch.repositories import list_repositories, note_removal
from indexing.store.elasticsearch.tests import BOUNDS, RemovedBound, source_of, test_of
from indexing.store.interface import ForgetCount, Steps
from indexing.timestamps import from_microseconds, to_microseconds

_ROWS_A_PAGE: Final = 5_000
_RUNS_A_PAGE: Final = 500
# The most runs in one query. A cluster accepts up to 65,536 terms by default, but fewer keep a
# query small.
_RUNS_A_QUERY: Final = 1_000


async def measure_executions(cluster: Cluster, selection: ExecutionSelection) -> SelectionExtent:
    executions = count = bounds = 0
    moments: list[int] = []
    await cluster.connection.refresh(f"{cluster.layout.executions},{cluster.layout.tests}")
    for routing, named in await _split_by_repository(cluster, selection):
        # Several queries may find executions of the same test.
        tests: set[str] = set()
        for query in await _queries_of(cluster, routing, named):
            async for buckets in scan_groups(
                cluster.connection,
                cluster.layout.executions,
                query,
                ("test_id",),
                size=_ROWS_A_PAGE,
                routing=routing,
                within={
                    "first": {"min": {"field": FINISHED_AT}},
                    "last": {"max": {"field": FINISHED_AT}},
                },
            ):
                tests.update(bucket["key"]["test_id"] for bucket in buckets)
                executions += sum(bucket["doc_count"] for bucket in buckets)
                for end in ("first", "last"):
                    moments += (int(bucket[end]["value"]) for bucket in buckets)
        count += len(tests)
        if selection.outside is not None:
            async for found in _find_misdated_bounds(cluster, routing, selection.outside):
                bounds += len(found)
    return SelectionExtent(
        executions,
        count,
        from_microseconds(min(moments)) if moments else None,
        from_microseconds(max(moments)) if moments else None,
        bounds,
    )


async def remove_executions(
    cluster: Cluster, selection: ExecutionSelection, now: datetime, progress: Steps | None
) -> int:
    removed = 0
    await cluster.connection.refresh(f"{cluster.layout.executions},{cluster.layout.tests}")
    for routing, named in await _split_by_repository(cluster, selection):
        for query in await _queries_of(cluster, routing, named):
            removed += await delete_results(cluster, routing, query)
        if selection.outside is not None:
            async for bounds in _find_misdated_bounds(cluster, routing, selection.outside):
                tests = {test for test, _ in bounds}
                follow_up = FollowUp(bounds)
                await dirty_markers.mark_changed(cluster, routing, tests, follow_up=follow_up)
            await _clamp_slots(cluster, routing, selection.outside.latest, now)
    await refresh_tests(cluster, now, progress, selection.repository)
    return removed


async def forget_test(
    cluster: Cluster,
    repository: RepositoryName,
    test_name: str,
    now: datetime,
    progress: Steps | None,
) -> ForgetCount:
    selection = ExecutionSelection(repository, test_name=test_name)
    routing, test_id = routing_of(repository), derive_test_id(repository, test_name)
    slot = QuarantineSlot(routing, test_id, test_name, None)
    removed = tests = 0
    has_more = True
    while has_more:
        removed += await remove_executions(cluster, selection, now, progress)
        await withdraw_automatic(cluster, slot, now)
        while not await _drop_test(cluster, repository, test_name):
            tests = 1
        # Results that arrived meanwhile have lost their test, and would count again for the next
        # one of that name. A load that stores some after this notices it.
        await note_removal(cluster, routing)
        has_more = (await measure_executions(cluster, selection)).executions > 0
    return ForgetCount(tests, removed)


async def _split_by_repository(
    cluster: Cluster, selection: ExecutionSelection
) -> list[tuple[str, ExecutionSelection]]:
    """Return the routing of each selected repository, with the selection within it."""
    if selection.repository is not None:
        return [(routing_of(selection.repository), selection)]
    names = [each.name for each in await list_repositories(cluster)]
    return [(routing_of(name), replace(selection, repository=name)) for name in names]


async def _queries_of(
    cluster: Cluster, routing: str, selection: ExecutionSelection
) -> list[dict[str, Any]]:
    """Return queries that together find each selected execution exactly once."""
    retention = (await cluster.control.read()).retention
    filters: list[dict[str, Any]] = [{"term": {"repository_id": routing}}]
    if selection.pipeline_name is not None:
        filters.append({"term": {"pipeline_name": selection.pipeline_name}})
    if selection.job_name is not None:
        filters.append({"term": {"job_name": selection.job_name}})
    if selection.test_name is not None and selection.repository is not None:
        test_id = derive_test_id(selection.repository, selection.test_name)
        filters.append({"term": {"test_id": str(test_id)}})
    if selection.outside is not None:
        ends = selection.outside
        before = {"range": {FINISHED_AT: {"lt": to_microseconds(ends.earliest)}}}
        ahead = {"range": {FINISHED_AT: {"gt": to_microseconds(ends.latest)}}}
        filters.append({"bool": {"should": [before, ahead]}})
    hidden = retention.hidden(FINISHED_AT)
    query: dict[str, Any] = {"bool": {"filter": filters, "must_not": hidden}}
    if selection.run_id is None and selection.attempt is None:
        return [query]
    runs = await _find_runs(cluster, routing, selection, query)
    return [
        {"bool": {"filter": [*filters, {"terms": {"run": some}}], "must_not": hidden}}
        for some in (
            runs[start : start + _RUNS_A_QUERY] for start in range(0, len(runs), _RUNS_A_QUERY)
        )
    ]


async def _find_runs(
    cluster: Cluster, routing: str, selection: ExecutionSelection, query: Mapping[str, Any]
) -> list[str]:
    """Return the ids of the selected runs; `run_id` and `attempt` are not searchable fields."""
    named = (selection.run_id, selection.attempt, selection.pipeline_name, selection.job_name)
    run_id, attempt, pipeline, job = named
    if selection.repository is not None and run_id and attempt and pipeline and job:
        run = Run(run_id, attempt, pipeline, job, branch="", commit="")
        return [derive_run_id(selection.repository, run).hex()]
    found: list[str] = []
    example = {"top_hits": {"size": 1, "_source": ["run_id", "attempt"]}}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        query,
        ("run",),
        size=_RUNS_A_PAGE,
        routing=routing,
        within={"example": example},
    ):
        for bucket in buckets:
            source = bucket["example"]["hits"]["hits"][0]["_source"]
            if run_id in (None, source["run_id"]) and attempt in (None, source["attempt"]):
                found.append(bucket["key"]["run"])
    return found


async def _find_misdated_bounds(
    cluster: Cluster, routing: str, accepted: AcceptedTimes
) -> AsyncIterator[frozenset[tuple[str, RemovedBound]]]:
    """Yield the bounds of tests outside the accepted times."""
    earliest, latest = to_microseconds(accepted.earliest), to_microseconds(accepted.latest)
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"term": {"repository_id": routing}},
        "sort": [{"test_id": "asc"}],
        "_source": list(BOUNDS),
    }
    async for hits in scan(cluster.connection, cluster.layout.tests, body, routing=routing):
        found = frozenset(
            (hit["_id"], RemovedBound(moment, None))
            for hit in hits
            for moment in hit["_source"].values()
            if moment is not None and not earliest <= moment <= latest
        )
        if found:
            yield found


async def _clamp_slots(cluster: Cluster, routing: str, latest: datetime, now: datetime) -> None:
    """Set times of evidence in quarantine slots to `now` if they are later than `latest`."""

    def clamp(moment: datetime | None) -> datetime | None:
        return now if moment is not None and moment > latest else moment

    body = {
        "size": _ROWS_A_PAGE,
        "query": {"term": {"repository_id": routing}},
        "sort": [{"scope": "asc"}],
        "seq_no_primary_term": True,
    }
    again = True
    while again:
        again = False
        await cluster.connection.refresh(cluster.layout.quarantines)
        async for hits in scan(
            cluster.connection, cluster.layout.quarantines, body, routing=routing
        ):
            for slot in map(slot_of_hit, hits):
                changed = replace(slot, answered_until=clamp(slot.answered_until))
                if slot.record is not None:
                    until = clamp(slot.record.judged_until)
                    changed = changed.holding(replace(slot.record, judged_until=until))
                if changed != slot:
                    tests = [str(slot.test_id)]
                    marked = await dirty_markers.mark_before(cluster, routing, tests)
                    again |= not await try_write_slot(cluster, changed)
                    await dirty_markers.mark_after(cluster, marked)


async def _drop_test(cluster: Cluster, repository: RepositoryName, test_name: str) -> bool:
    """Delete the document of a test and its identity rows; return True if there was none."""
    routing = routing_of(repository)
    test_id = str(derive_test_id(repository, test_name))
    tests = cluster.layout.tests
    document = await cluster.connection.get(tests, test_id, routing=routing)
    if document is None:
        return True
    before = test_of(document.source)
    # Identity rows use the version of their test's document as an external version. So write the
    # document once more before deleting the rows: a concurrent refresh of this test then conflicts
    # on both.
    emptied = source_of(
        replace(before, health=TestHealth(), metadata=TestMetadata()), test_id, routing
    )
    writing = Operation("index", tests, test_id, routing, emptied, document.version.parameters)
    (outcome,) = await bulk.send(cluster.connection, [writing], visible=False)
    if not outcome.done:
        return False
    await _delete_rows(cluster, repository, test_name, before.identities, outcome.version)
    deletions = list_deletions(cluster, repository, test_id, test_name, before.history)
    await bulk.send(cluster.connection, deletions, visible=True)
    document = await cluster.connection.get(tests, test_id, routing=routing)
    if document is not None and test_of(document.source) == test_of(emptied):
        # Delete the document last, so that a new document of this test has a higher version than
        # the deleted rows.
        guard = document.version.parameters
        deleting = Operation("delete", tests, test_id, routing, guard=guard)
        await bulk.send(cluster.connection, [deleting], visible=True)
    return False


async def _delete_rows(
    cluster: Cluster,
    repository: RepositoryName,
    test_name: str,
    identities: Sequence[tuple[str, str]],
    version: int,
) -> None:
    state = await cluster.control.read()
    operations = [
        Operation(
            "delete",
            cluster.layout.identities_of(generation),
            row_id_of(repository, test_name, pipeline, job),
            routing_of(repository),
            guard={"version": version, "version_type": "external_gte"},
        )
        for pipeline, job in identities
        for generation in state.generations
    ]
    # A rebuild may have ended in the meantime and deleted the older generation.
    await bulk.send(cluster.connection, operations, visible=True, may_be_gone=True)
