"""Writes executions into time slices, registers their tests, and marks these as dirty."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final

import orjson

from indexing.health.window import day_of
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.concurrency import run_both
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.existing_ids import find_existing
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.dirty_markers import (
    FollowUp,
    marker_operation,
    new_marker_id,
    write_markers,
)
from indexing.store.elasticsearch.derived.marked_executions import MarkedExecution, mark_execution
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.execution_documents import Result, list_results
from indexing.store.elasticsearch.indices.control import State
from indexing.store.elasticsearch.indices.written_markers import WrittenMarker
from indexing.store.elasticsearch.repositories import read_known, removal_of
from indexing.store.elasticsearch.tests import StoredTest, source_of
from indexing.store.interface import ExecutionCount
from indexing.yielding import LoopYielder

# The most ids in one search, and the rows of one page of it. An id may have several rows: one that
# retention has dropped may exist in another slice.
_IDS_AT_ONCE: Final = 5_000
_ROWS_A_PAGE: Final = 5_000
# Up to this many documents (the number of ids times the number of slices) are looked up by id. For
# more, a search is cheaper, although it needs a refresh first.
_LOOKED_UP_AT_ONCE: Final = 500
# The most executions in one marker.
_EXECUTIONS_A_MARKER: Final = 2_000


async def write_results(
    cluster: Cluster,
    repository: RepositoryName,
    results: Mapping[Run, Sequence[Execution]],
) -> ExecutionCount:
    priority = cluster.connection.write_priority
    size = sum(map(len, results.values()))
    with priority.small_write() if size <= SMALL_WRITE else nullcontext():
        return await _write(cluster, repository, results)


async def _write(
    cluster: Cluster,
    repository: RepositoryName,
    results: Mapping[Run, Sequence[Execution]],
) -> ExecutionCount:
    given = list_results(cluster.layout, repository, results)
    state, removal, there = await _look_up(cluster, repository, given)
    if not given:
        return ExecutionCount(0, 0)
    routing = routing_of(repository)
    names = {each.test: each.execution.test_name for each in given}
    marker_id = new_marker_id()
    # Runs that differ only by their commits have the same id and are judged together.
    runs = frozenset(each.run.id for each in given)
    counted = frozenset((each.run.arrival_id, day_of(each.execution.finished_at)) for each in given)
    follow_up = FollowUp(runs=runs, arrivals=counted)
    marker = partial(
        marker_operation,
        cluster,
        marker_id,
        routing,
        names,
        follow_up=follow_up,
        removal=removal,
        epoch=state.retention.epoch,
    )
    before = marker(ahead=True)
    planning = _plan(cluster, routing, given, state, there)
    if cluster.slices.are_known({each.stored_in for each in given}):
        operations, _ = await run_both(planning, _mark_before(cluster, before, routing, names))
    else:
        operations = await planning
        # Create slices before any other write: a cluster without room for them stays unchanged.
        await cluster.slices.ensure(operation.index for operation in operations.values())
        await _mark_before(cluster, before, routing, names)
    if len(given) > SMALL_WRITE:
        await cluster.connection.write_priority.give_way()
    outcomes = await _store(cluster, operations, len(given))
    if len(given) > SMALL_WRITE:
        await cluster.connection.write_priority.give_way()
    await write_markers(cluster, [marker(executions=_mark_executions(given, outcomes))])
    cluster.written_markers.add(routing, WrittenMarker(marker_id, frozenset(names), runs, counted))
    written = sum(outcome is not None and outcome.done for outcome in outcomes)
    unchanged = sum(outcome is None or outcome.conflicts for outcome in outcomes)
    return ExecutionCount(written, unchanged)


def _mark_executions(
    results: Sequence[Result], outcomes: Sequence[Outcome | None]
) -> dict[str, list[MarkedExecution]] | None:
    """Return the executions for the marker, by test; None if they are too many for one marker."""
    if len(results) > _EXECUTIONS_A_MARKER:
        return None
    marked: dict[str, list[MarkedExecution]] = {}
    for result, outcome in zip(results, outcomes, strict=True):
        known = result.run
        is_new = outcome is not None and outcome.done
        marked.setdefault(result.test, []).append(
            mark_execution(known.run, known.id, result.execution, is_new=is_new)
        )
    return marked


async def _mark_before(
    cluster: Cluster, marker: Operation, routing: str, names: dict[str, str]
) -> None:
    """Write the marker and register new tests, before any of their executions is written."""
    operations = [marker]
    if len(names) > SMALL_WRITE:
        # Most tests of a large load are known. To look one up costs less than to create it in vain.
        _, known = await run_both(
            bulk.send(cluster.connection, operations, visible=False),
            find_existing(cluster.connection, cluster.layout.tests, list(names), routing),
        )
        names = {test: name for test, name in names.items() if test not in known}
        operations = []
    # The roll-ups are empty and not None: they are known, because no execution is stored.
    empty = source_of(StoredTest("", rollups=()), "", routing)
    new = [
        Operation(
            "create",
            cluster.layout.tests,
            test_id,
            routing,
            text=orjson.dumps(empty | {"test_id": test_id, "test_name": name}),
        )
        for test_id, name in names.items()
    ]
    outcomes = await bulk.send(cluster.connection, [*operations, *new], visible=False)
    # The refresh of this process need not read the tests that are new.
    yielder = LoopYielder()
    for operation, outcome in zip(new, outcomes[len(operations) :], strict=True):
        if outcome.done:
            cluster.written_tests.keep(routing, operation.id, operation.text, outcome.written)
            await yielder.yield_if_due()


async def _plan(
    cluster: Cluster,
    routing: str,
    results: Sequence[Result],
    state: State,
    there: Mapping[str, _StoredExecution] | None,
) -> dict[int, Operation]:
    """Return the writes of new executions, by their position in `results`.

    `there` has the stored executions by id; None if they have yet to be searched for. Of several
    results with the same id, only the first one is written: the others may have another time, and
    so be of another slice, where that id is new.
    """
    if there is None:
        there = await _find_stored(cluster, routing, results, state)
    operations: dict[int, Operation] = {}
    planned: set[str] = set()
    yielder = LoopYielder()
    for number, result in enumerate(results):
        place = there.get(result.id)
        if result.id in planned or (place is not None and not place.dropped):
            continue
        planned.add(result.id)
        operations[number] = _operation_of(routing, result, state.retention.epoch, place)
        await yielder.yield_if_due()
    return operations


async def _store(
    cluster: Cluster, operations: Mapping[int, Operation], count: int
) -> list[Outcome | None]:
    """Execute the writes; return an outcome for each execution, None for those stored before."""
    sent = await cluster.slices.send(list(operations.values()))
    outcomes = dict(zip(operations, sent, strict=True))
    return [outcomes.get(number) for number in range(count)]


@dataclass(frozen=True, slots=True)
class _StoredExecution:
    """The index of a stored execution; `dropped` if retention hides it."""

    index: str
    dropped: bool


async def _look_up(
    cluster: Cluster, repository: RepositoryName, results: Sequence[Result]
) -> tuple[State, str, dict[str, _StoredExecution] | None]:
    """Check that the repository is known, and look up stored executions if they are few.

    Also returns the id of the last deletion of results. Returns None for the executions if
    `_find_stored` has to find them. The time of an execution determines its slice, and a repeated
    upload may report another time. So all slices are searched for the ids. Within a slice, an id
    cannot be written twice.

    Raises:
        UnknownRepositoryError: nobody has registered the repository.
    """
    ids = [result.id for result in results]

    def places_in(slices: Collection[str]) -> list[Place] | None:
        if not ids or len(ids) * len(slices) > _LOOKED_UP_AT_ONCE:
            return None
        routing = routing_of(repository)
        return [
            Place(index, each, routing, (FINISHED_AT, "epoch")) for index in slices for each in ids
        ]

    # The slices that this process knows are read in the same request as the repository.
    known = sorted(cluster.control.slices)
    places = places_in(known) or []
    state, own, documents = await read_known(cluster, repository, places)
    removal = removal_of(own)
    new = sorted(state.slices.difference(known))
    if places_in(state.slices) is None:
        return state, removal, None
    more = places_in(new) or []
    documents += await cluster.connection.get_many(more, may_be_gone=True, timeouts=WRITING)
    found: dict[str, _StoredExecution] = {}
    for place, document in zip([*places, *more], documents, strict=True):
        if document is not None:
            dropped = state.retention.is_dropped(document.source, FINISHED_AT)
            if not dropped or document.id not in found:
                found[document.id] = _StoredExecution(place.index, dropped=dropped)
    return state, removal, found


async def _find_stored(
    cluster: Cluster, routing: str, results: Sequence[Result], state: State
) -> dict[str, _StoredExecution]:
    """Return the places of those of many executions that are stored.

    A load writes into one slice, most often. Its executions are looked up there, because a search
    would need a refresh, which writes a segment. In the other slices, a refresh finds nothing new.
    """
    connection, layout = cluster.connection, cluster.layout
    if len(results) > SMALL_WRITE:
        await connection.write_priority.give_way()
    ids = [result.id for result in results]
    own = {result.stored_in for result in results}
    found: dict[str, _StoredExecution] = {}
    searched = layout.executions
    if len(own) == 1:
        (index,) = own
        stored = await find_existing(connection, index, ids, routing, (FINISHED_AT, "epoch"))
        for execution_id, source in stored.items():
            found[execution_id] = _StoredExecution(
                index, dropped=state.retention.is_dropped(source, FINISHED_AT)
            )
        if not state.slices - own:
            return found
        searched += f",-{index}"
    await connection.refresh(searched)
    for start in range(0, len(ids), _IDS_AT_ONCE):
        body = {
            "size": _ROWS_A_PAGE,
            "query": {"ids": {"values": ids[start : start + _IDS_AT_ONCE]}},
            # The time determines the slice, so id and time are unique together.
            "sort": [{"execution_id": "asc"}, {FINISHED_AT: "asc"}],
            "_source": [FINISHED_AT, "epoch"],
        }
        async for hits in scan(connection, searched, body, routing=routing):
            for hit in hits:
                dropped = state.retention.is_dropped(hit["_source"], FINISHED_AT)
                if not dropped or hit["_id"] not in found:
                    found[hit["_id"]] = _StoredExecution(hit["_index"], dropped=dropped)
    return found


def _operation_of(
    routing: str, result: Result, epoch: int, place: _StoredExecution | None
) -> Operation:
    overwrites = place is not None and place.index == result.stored_in
    action: bulk.Action = "index" if overwrites else "create"
    return Operation(action, result.stored_in, result.id, routing, text=result.encode(epoch))
