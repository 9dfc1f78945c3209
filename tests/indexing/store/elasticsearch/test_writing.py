"""Writes that are pruned, moved, concurrent or interrupted: derived data stays complete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from indexing.errors import StoreUnavailableError
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.quarantine.configuration import describe_change
from indexing.store.elasticsearch import executions
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.derived import runs
from indexing.store.elasticsearch.indices import refresh_lease
from indexing.store.elasticsearch.repositories import make_known, replace_repository
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import EventOutcome, ExecutionCount
from tests.builders import (
    NOON,
    WIDGETS,
    after,
    load_names,
    make_event,
    make_executions,
    make_run,
)
from tests.indexing.store.elasticsearch.inspection import (
    ALL,
    ask,
    cluster_of,
    event_ids,
    indices_of,
    names,
    run_before,
)

PASSED = Conclusion.PASSED
FAILED = Conclusion.FAILED


@pytest.mark.fresh_indices
async def test_retention_drops_whole_slices_and_hides_the_rest(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    moments = [after(days=days) for days in (-70, -40, -10, 0)]
    await store.write_events([make_event(n, at) for n, at in enumerate(moments)])
    assert await indices_of(store, "events") == ["2026-06", "2026-07", "2026-08", "2026-09"]
    count = await store.prune(after(days=-5), NOON)
    assert (count.events, await event_ids(store)) == (3, [3])
    assert await indices_of(store, "events") == ["2026-08", "2026-09"]
    assert (await store.get_status(NOON)).events == 1


@pytest.mark.parametrize("same", [True, False])
async def test_what_retention_hid_can_be_loaded_again(
    store: ElasticsearchStore, same: bool
) -> None:
    await store.ensure_repository(WIDGETS)
    event = make_event(1)
    await store.write_events([event, make_event(2, after(hours=2))])
    run = make_run()
    both = make_executions(run, [("t", PASSED), ("u", PASSED)])
    await store.write_results(WIDGETS, {run: both})
    await store.prune(after(hours=1), NOON)
    assert await event_ids(store) == [2]
    assert await names(store) == []

    again = event if same else make_event(1, trigger="another")
    assert await store.write_events([again]) == [EventOutcome.WRITTEN]
    assert await store.write_events([again]) == [EventOutcome.UNCHANGED]
    assert await event_ids(store) == [2, 1]
    assert await store.write_results(WIDGETS, {run: both}) == ExecutionCount(2, 0)
    assert await store.write_results(WIDGETS, {run: both}) == ExecutionCount(0, 2)
    await store.refresh_tests(NOON)
    assert await names(store) == ["t", "u"]
    assert (await store.prune(after(hours=1), NOON)).executions == 2
    assert await names(store) == []


async def test_an_execution_stays_one_though_its_time_moves_to_another_month(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    (execution,) = make_executions(run, [("t", PASSED)])
    for days in (0, 45, -45):
        moved = replace(execution, finished_at=after(days=days))
        count = await store.write_results(WIDGETS, {run: [moved]})
        assert count == ExecutionCount(int(days == 0), int(days != 0))
    await store.refresh_tests(NOON)
    (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.executions_count == 1


async def test_writers_at_once_end_in_the_state_of_all_of_them(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)

    async def load(through: ElasticsearchStore, number: int) -> None:
        run = make_run(str(number), commit=str(number))
        both = make_executions(run, [("t", PASSED), ("u", PASSED)], after(hours=number))
        await through.write_results(WIDGETS, {run: both})
        await through.refresh_tests(NOON)

    await asyncio.gather(*(load((store, other)[n % 2], n) for n in range(12)))
    page = await store.search_tests(ALL, Anchor(), 10)
    assert [row.key.executions_count for row in page.rows] == [12, 12]
    assert (await store.get_status(NOON)).stale_tests == 0


async def test_rows_that_a_cut_refresh_left_are_gone_after_the_next_one(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, ["t"], make_run("1", job="old", branch="dev"))
    await load_names(store, ["t"], make_run("2", job="new"))
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="dev"), NOON)
    await store.refresh_tests(NOON)
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="main"), NOON)
    send = bulk.send

    async def send_no_rows(connection: Any, operations: Any, **rest: Any) -> Any:
        if operations and "-identities-" in operations[0].index:
            raise StoreUnavailableError("the node is gone")
        return await send(connection, operations, **rest)

    monkeypatch.setattr(bulk, "send", send_no_rows)
    with pytest.raises(StoreUnavailableError):
        await store.refresh_tests(NOON)
    monkeypatch.undo()
    await store.refresh_tests(NOON)
    (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.job_name == "new"


async def test_shards_of_a_run_that_are_judged_at_once_are_judged_together(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer counts everything just before this one writes its count."""
    await store.ensure_repository(WIDGETS)
    run = make_run()
    failed = make_executions(run, [(f"t{n}", Conclusion.FAILED) for n in range(30)])
    passed = make_executions(run, [(f"g{n}", PASSED) for n in range(100)])
    find_tests = runs._find_tests

    async def find_slowly(*asked: Any) -> Any:
        monkeypatch.setattr(runs, "_find_tests", find_tests)
        await other.write_results(WIDGETS, {run: passed})
        await other.refresh_tests(NOON)
        return await find_tests(*asked)

    monkeypatch.setattr(runs, "_find_tests", find_slowly)
    # The other one waits for the lease of this one in vain.
    monkeypatch.setattr(refresh_lease, "WAIT_SECONDS", 0.1)
    await store.write_results(WIDGETS, {run: failed})
    await store.refresh_tests(NOON)
    found = await store.get_test(WIDGETS, derive_test_id(WIDGETS, "t0"))
    assert found is not None
    assert found.health.failure_ratio == 1.0


async def test_a_refresh_before_the_executions_does_not_use_up_their_mark(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is killed as soon as its executions are written."""
    await store.ensure_repository(WIDGETS)
    run = make_run()

    write = executions._store

    async def write_and_die(*asked: Any) -> None:
        await other.refresh_tests(NOON)
        await write(*asked)
        raise ConnectionAbortedError

    monkeypatch.setattr(executions, "_store", write_and_die)
    with pytest.raises(ConnectionAbortedError):
        await store.write_results(WIDGETS, {run: make_executions(run, [("t", PASSED)])})
    assert (await other.get_status(NOON)).stale_tests == 1
    await other.refresh_tests(NOON)
    assert await names(other) == ["t"]


async def test_an_event_that_a_killed_change_of_settings_left_is_written_by_the_next_one(
    store: ElasticsearchStore,
) -> None:
    stored = await make_known(cluster_of(store), WIDGETS)
    changed = replace(stored.repository, auto_quarantine=True)
    await replace_repository(
        cluster_of(store),
        stored,
        changed,
        settings_version=1,
        announcement=describe_change(stored.repository, changed, NOON),
    )
    assert await event_ids(store) == []
    for _ in range(2):
        await store.set_repository(WIDGETS, RepositoryChange(), after(hours=1))
        assert len(await event_ids(store)) == 1


async def test_runs_of_one_call_take_no_more_requests_for_being_many(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    connection = cluster_of(store).connection
    request = connection.request
    requests = 0

    async def count(*arguments: Any, **options: Any) -> Any:
        nonlocal requests
        requests += 1
        return await request(*arguments, **options)

    monkeypatch.setattr(connection, "request", count)
    taken = []
    # The first call creates the slice.
    for number in (2, 1, 100):
        given = [make_run("1", commit=f"{number}-{n}") for n in range(number)]
        requests = 0
        await store.write_results(
            WIDGETS, {run: make_executions(run, [("t", PASSED)]) for run in given}
        )
        taken.append(requests)
    assert taken[2] == taken[1]


@pytest.fixture
def targets(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets of all requests of the store, but for those that only keep a lease."""
    connection = cluster_of(store).connection
    request = connection.request
    noted: list[str] = []

    async def note(method: str, target: str, *arguments: Any, **options: Any) -> Any:
        if method != "PUT" or "if_seq_no" not in target:
            noted.append(target)
        return await request(method, target, *arguments, **options)

    monkeypatch.setattr(connection, "request", note)
    return noted


async def upload(store: ElasticsearchStore, number: int, names: Sequence[str] = ("t",)) -> None:
    run = make_run(str(number), commit=str(number))
    executions = make_executions(run, [(name, PASSED) for name in names])
    await store.write_results(WIDGETS, {run: executions})
    assert await store.refresh_tests(NOON, repository=WIDGETS) == len(names)


async def test_a_small_upload_takes_few_requests_and_two_refreshes(
    store: ElasticsearchStore, targets: list[str]
) -> None:
    await store.ensure_repository(WIDGETS)
    # It creates the slice.
    await upload(store, 1)
    for number, tests in enumerate([("t",), ("t", "u"), [f"t{n}" for n in range(50)]], 2):
        targets.clear()
        await upload(store, number, tests)
        # Markers and executions before the reads; rows of the search and counts of runs at the end.
        assert sum("refresh" in target for target in targets) == 2
        assert len(targets) <= 12


async def test_a_small_upload_finishes_what_a_killed_process_left(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    await upload(store, 1)
    run = make_run("2")
    await other.write_results(WIDGETS, {run: make_executions(run, [("u", PASSED)])})
    run = make_run("3")
    await store.write_results(WIDGETS, {run: make_executions(run, [("v", PASSED)])})
    assert await store.refresh_tests(NOON, repository=WIDGETS) == 2
    assert await names(store) == ["t", "u", "v"]
    assert (await store.get_status(NOON)).stale_tests == 0


async def test_a_marker_that_another_process_has_handled_is_not_handled_again(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    """What the marker says is stored may have been removed since."""
    await store.ensure_repository(WIDGETS)
    await upload(store, 1)
    run = make_run("2")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t", PASSED)])})
    assert await other.refresh_tests(NOON, repository=WIDGETS) == 1
    await other.remove_executions(ExecutionSelection(WIDGETS, run_id="2"), NOON)
    assert await store.refresh_tests(NOON, repository=WIDGETS) == 0
    (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.executions_count == 1


async def test_a_slice_that_was_deleted_after_it_was_listed_holds_nothing(
    store: ElasticsearchStore,
) -> None:
    run = make_run()
    await load_names(store, ["t"], run)
    layout = cluster_of(store).layout
    places = [
        Place(layout.executions_of("1999-01"), "0"),
        Place(layout.control, "store", fields=("kind",)),
    ]
    found = await cluster_of(store).connection.get_many(places, may_be_gone=True)
    assert [None if each is None else each.source for each in found] == [None, {"kind": "store"}]
    with pytest.raises(StoreUnavailableError):
        await cluster_of(store).connection.get_many(places)


async def versions_of(store: ElasticsearchStore) -> list[tuple[str, int]]:
    """The number of writes of each test and of each row of the search."""
    layout = cluster_of(store).layout
    target = f"/{layout.tests},{layout.identities}/_search?version=true&size=100"
    found = await ask(store, "GET", target)
    return sorted((hit["_id"], hit["_version"]) for hit in found["hits"]["hits"])


async def test_results_that_are_loaded_again_write_no_test_and_no_row(
    store: ElasticsearchStore,
) -> None:
    await load_names(store, ["a", "b"], make_run("1"))
    await cluster_of(store).connection.refresh(cluster_of(store).layout.tests)
    before = await versions_of(store)
    assert len(before) == 4
    await load_names(store, ["a", "b"], make_run("1"))
    await load_names(store, ["c"], make_run("2"))
    await cluster_of(store).connection.refresh(cluster_of(store).layout.tests)
    assert set(before) < set(await versions_of(store))


async def fail_to_write_rows(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a refresh fail after it has written the tests, and before it writes their rows."""
    connection = cluster_of(store).connection
    request = connection.request

    async def fail_for_rows(method: str, target: str, body: Any = None, **options: Any) -> Any:
        if target.startswith("/_bulk") and b"-identities-" in body:
            raise StoreUnavailableError("down")
        return await request(method, target, body, **options)

    with monkeypatch.context() as patched:
        patched.setattr(connection, "request", fail_for_rows)
        with pytest.raises(StoreUnavailableError):
            await store.refresh_tests(NOON, repository=WIDGETS)


async def test_rows_that_a_failed_refresh_left_behind_are_written_by_the_next_one(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, ["a"], make_run("1"))
    run = make_run("2")
    await store.write_results(WIDGETS, {run: make_executions(run, [("a", PASSED)])})
    await fail_to_write_rows(store, monkeypatch)
    await other.refresh_tests(NOON, repository=WIDGETS)
    (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.executions_count == 2


@pytest.mark.parametrize("prunes", [False, True])
async def test_rows_left_behind_while_a_refresh_of_all_repositories_waits_are_written_by_it(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    prunes: bool,
) -> None:
    """It has read the markers before it waits, so it has to look for others."""
    await load_names(store, ["a", "b"], make_run("1"))
    run = make_run("2")
    await other.write_results(WIDGETS, {run: make_executions(run, [("b", PASSED)])})

    async def fail() -> None:
        await store.write_results(WIDGETS, {run: make_executions(run, [("a", PASSED)])})
        await fail_to_write_rows(store, monkeypatch)

    run_before(other, monkeypatch, lambda target, _: "/turn-" in target, fail)
    if prunes:
        await other.prune(after(days=-10), NOON)
    else:
        await other.refresh_tests(NOON)
    # The lease no longer shows that a refresh has failed.
    await store.refresh_tests(NOON, repository=WIDGETS)
    rows = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert {row.key.test_name: row.key.executions_count for row in rows} == {"a": 2, "b": 2}
