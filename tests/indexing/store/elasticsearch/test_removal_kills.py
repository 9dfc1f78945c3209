"""Removals that are killed between any two requests: repeating them ends in the same state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from indexing.models.executions import Conclusion
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.store.elasticsearch import removal
from indexing.store.elasticsearch.indices import refresh_lease
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.test_executions import load
from tests.contracts.test_removal import state
from tests.indexing.store.elasticsearch.inspection import KilledError, limit_requests

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED

# Only every few requests, so that all phases are covered and the test ends in time.
STRIDE = 5


async def undo(store: Store) -> None:
    await store.remove_executions(ExecutionSelection(WIDGETS, run_id="9"), NOON)


async def forget(store: Store) -> None:
    await store.forget_test(WIDGETS, "t", NOON)


@pytest.mark.parametrize("remove", [undo, forget])
async def test_a_removal_that_was_killed_is_finished_by_the_next(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    remove: Callable[[Store], Awaitable[None]],
) -> None:
    # The lease of a killed process expires soon.
    monkeypatch.setattr(refresh_lease, "EXPIRES_SECONDS", 0.05)
    monkeypatch.setattr(refresh_lease, "LOOK_SECONDS", 0.01)
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
    assert (await store.get_status()).executions == 1
