"""Quarantines that a refresh writes while results are removed, or while a newer one is written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from indexing.models.changes import AnswerChanges
from indexing.models.executions import Conclusion
from indexing.models.repositories import RepositoryChange
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived import forgotten_tests
from indexing.store.elasticsearch.quarantine_slots import QuarantineSlot
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.loading import load, of_run, state, write_result
from tests.contracts.quarantining import add
from tests.indexing.store.elasticsearch.inspection import cluster_of, names, run_before

pytestmark = [pytest.mark.fresh_indices, pytest.mark.usefixtures("nobody_waits_for_a_lease")]

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED


def writes_quarantine_of(store: ElasticsearchStore) -> Callable[[str, Any], bool]:
    index = cluster_of(store).layout.quarantines.encode()
    return lambda target, body: target.startswith("/_bulk") and index in body


@pytest.mark.parametrize("has_lease", [True, False])
@pytest.mark.parametrize("is_forgotten", [True, False])
async def test_a_quarantine_that_begins_after_its_results_were_removed(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    has_lease: bool,
    is_forgotten: bool,
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    await load(other, make_run("1", commit="c9"), ("t", PASSED), ("u", PASSED))
    now = after(hours=1)
    removed = False

    async with AsyncExitStack() as taken:

        async def remove() -> None:
            nonlocal removed
            removed = True
            await taken.aclose()
            if is_forgotten:
                await other.forget_test(WIDGETS, "t", now)
            else:
                await other.remove_executions(of_run("9"), now)

        if not has_lease:
            leases = cluster_of(other).refresh_leases
            await taken.enter_async_context(leases.hold(routing_of(WIDGETS)))
        await write_result(store, "9", FAILED)
        run_before(store, monkeypatch, writes_quarantine_of(store), remove)
        await store.refresh_tests(now, repository=WIDGETS)
    assert removed
    await other.refresh_tests(now, repository=WIDGETS)
    assert (await state(other, ["t"]))[2] == []
    assert await names(other) == (["u"] if is_forgotten else ["t", "u"])
    assert (await other.get_status(NOON)).stale_tests == 0


@pytest.mark.parametrize("is_automatic", [False, True])
async def test_a_recovery_that_is_written_after_the_failure_was_removed(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    is_automatic: bool,
) -> None:
    if is_automatic:
        await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    await load(store, make_run("f", commit="f"), ("t", PASSED), ("t", FAILED), at=-1)
    if not is_automatic:
        await add(store)
    for number in range(10):
        run = make_run(f"c{number}", commit=f"c{number}")
        await load(store, run, ("t", PASSED), at=0.1 + number / 100)
    removed = False

    async def undo() -> None:
        nonlocal removed
        removed = True
        await other.remove_executions(of_run("9"), NOON)

    await write_result(store, "9", FAILED)
    run_before(store, monkeypatch, writes_quarantine_of(store), undo)
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert removed
    await load(other, make_run("20", commit="20"), ("t", PASSED), at=2)
    found = (await state(other, ["t"]))[2]
    assert len(found) == 1
    await other.rebuild(NOON)
    assert (await state(other, ["t"]))[2] == found


@pytest.mark.parametrize("comes_again", [False, True])
async def test_a_quarantine_of_a_forgotten_test_is_withdrawn_and_reported(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    comes_again: bool,
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    await load(other, make_run("1", commit="c9"), ("t", PASSED), ("u", PASSED))
    now = after(hours=1)
    reported: list[str] = []
    withdraw = forgotten_tests.withdraw_automatic

    async def withdraw_late(cluster: Cluster, slot: QuarantineSlot, *rest: Any) -> None:
        if comes_again:
            for number, conclusion in ((30, PASSED), (31, FAILED)):
                run = make_run(f"{number}", commit="c30")
                given = make_executions(run, [("t", conclusion)], after(hours=number / 60))
                await other.write_results(WIDGETS, {run: given})
            await other.refresh_tests(now, repository=WIDGETS)
        await withdraw(cluster, slot, *rest)
        reported.append("withdrawn")

    def report(changes: AnswerChanges) -> None:
        reported.append("reported" if changes.quarantines or changes.everything else "")

    await write_result(store, "9", FAILED)

    async def forget() -> None:
        await other.forget_test(WIDGETS, "t", now)
        monkeypatch.setattr(forgotten_tests, "withdraw_automatic", withdraw_late)

    run_before(store, monkeypatch, writes_quarantine_of(store), forget)
    await store.refresh_tests(now, repository=WIDGETS, changed=report)
    assert "reported" in reported[reported.index("withdrawn") :]
    found = (await state(other, ["t"]))[2]
    assert len(found) == comes_again
    assert (await other.get_status(NOON)).stale_tests == 0
    await other.rebuild(now)
    assert (await state(other, ["t"]))[2] == found


async def test_a_slow_refresh_leaves_a_newer_quarantine_alone(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    run = make_run("1")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t", PASSED)])})

    async def fail() -> None:
        await load(other, make_run("2"), ("t", FAILED), at=1)

    def looks_slots_up(target: str, body: Any) -> bool:
        quarantines = cluster_of(store).layout.quarantines
        return target.startswith("/_mget") and body["docs"][0]["_index"] == quarantines

    run_before(store, monkeypatch, looks_slots_up, fail)
    await store.refresh_tests(NOON, repository=WIDGETS)
    found = await state(store, ["t"])
    assert len(found[2]) == 1
    await store.rebuild(NOON)
    assert await state(store, ["t"]) == found
