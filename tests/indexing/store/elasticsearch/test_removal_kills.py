"""Removals that are killed between any two requests: repeating them ends in the same state."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import pytest

from indexing.models.executions import Conclusion
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.store.elasticsearch import executions, removal
from indexing.store.elasticsearch.derived import dirty_markers, removed_results
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.loading import load, state
from tests.indexing.store.elasticsearch.inspection import (
    KilledError,
    limit_requests,
    run_before,
    writes_executions,
)

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED

# Only every few requests, so that all phases are covered and the test ends in time.
STRIDE = 5


async def undo(store: Store) -> None:
    await store.remove_executions(ExecutionSelection(WIDGETS, run_id="9"), NOON)


async def forget(store: Store) -> None:
    await store.forget_test(WIDGETS, "t", NOON)


@pytest.mark.usefixtures("leases_expire_soon")
@pytest.mark.parametrize("remove", [undo, forget])
async def test_a_removal_that_was_killed_is_finished_by_the_next(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    remove: Callable[[Store], Awaitable[None]],
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)

    async def fill() -> None:
        names = [f"t{number}" for number in range(19)]
        # One test less, and this job did not fail as a whole.
        first, second = make_run("1", commit="a"), make_run("9", commit="x")
        failed = make_executions(first, [(name, FAILED) for name in (*names, "t")])
        mistaken = make_executions(second, [("t", FAILED), ("u", PASSED)], after(hours=-1))
        await other.write_results(WIDGETS, {first: failed, second: mistaken})
        await other.refresh_tests(NOON)

    await fill()
    await remove(other)
    expected = await state(other, ("t", "t0", "u"))
    requests = limit_requests(store, monkeypatch)
    allowed = 0
    killed = True
    while killed:
        await fill()
        requests.left = allowed
        allowed += STRIDE
        try:
            await remove(store)
            killed = False
        except KilledError:
            await remove(other)
        assert await state(other, ("t", "t0", "u")) == expected, allowed
    assert allowed > 2 * STRIDE


async def test_a_load_that_a_killed_forget_overtook_leaves_no_results(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(other, make_run("1"), ("t", PASSED), ("u", PASSED))
    # Of a forget that was killed later, after the load has begun.
    await other.remove_executions(ExecutionSelection(WIDGETS, test_name="t"), NOON)

    async def forget_halfway() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(removal, "note_removal", _die)
            with pytest.raises(KilledError):
                await forget(other)

    run_before(store, monkeypatch, writes_executions, forget_halfway)
    run = make_run("9")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t", FAILED)])})
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert (await store.get_status(NOON)).executions == 1


@pytest.mark.usefixtures("one_marker_a_read")
async def test_results_that_a_killed_undo_deleted_are_not_merged_later(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The marker of the removal is handled first.
    monkeypatch.setattr(executions, "new_marker_id", lambda: "later in the order")
    monkeypatch.setattr(dirty_markers, "new_marker_id", lambda **_: "earlier")
    await load(store, make_run("1"), ("t", PASSED))
    before = await state(store, ["t"])
    run = make_run("9")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t", FAILED)])})
    with monkeypatch.context() as patched:
        patched.setattr(removed_results, "note_removal", _die)
        with pytest.raises(KilledError):
            await undo(other)
    # Long after the deadline of the marker before the deletion.
    now = time.time() + 2 * dirty_markers.AHEAD_SECONDS
    monkeypatch.setattr("indexing.store.elasticsearch.derived.dirty_markers.time.time", lambda: now)
    await other.refresh_tests(NOON, repository=WIDGETS)
    assert await state(other, ["t"]) == before


async def _die(*_: object) -> None:
    raise KilledError


async def test_many_runs_are_removed_in_queries_of_a_few(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_RUNS_A_QUERY", 2)
    for number in range(5):
        await load(store, make_run("9", job=f"j{number}"), ("t", PASSED), (f"u{number}", PASSED))
    await load(store, make_run("1", job="j0"), ("t", PASSED))
    selection = ExecutionSelection(WIDGETS, run_id="9")
    extent = await store.measure_executions(selection)
    assert (extent.executions, extent.tests) == (10, 6)
    assert await store.remove_executions(selection, NOON) == 10
    assert (await store.measure_executions(selection)).executions == 0
    assert (await store.get_status(NOON)).executions == 1
