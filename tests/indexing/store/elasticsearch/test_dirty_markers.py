"""Dirty markers: which of them a refresh handles, and how large they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import orjson
import pytest

from indexing.identifiers import derive_quarantine_slot_id, derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineRequest
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.derived import (
    dirty_markers,
    spelled_markers,
    steps,
    stored_markers,
)
from indexing.store.elasticsearch.derived.steps import Step
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import (
    GADGETS,
    NOON,
    WIDGETS,
    after,
    load_names,
    make_executions,
    make_run,
)
from tests.indexing.store.elasticsearch.inspection import (
    ALL,
    KilledError,
    ask,
    cluster_of,
    names,
    run_before,
)

PASSED = Conclusion.PASSED
FAILED = Conclusion.FAILED


async def damage(store: ElasticsearchStore, test: str) -> None:
    """Let no refresh be able to judge that test."""
    index, routing = cluster_of(store).layout.tests, routing_of(WIDGETS)
    place = f"/{index}/_update/{derive_test_id(WIDGETS, test)}?routing={routing}"
    await ask(store, "POST", place, {"doc": {"history": "{"}})


async def mark_in_turn(store: ElasticsearchStore, *tests: str) -> None:
    """Load four runs without a refresh: each has a test of its own and these."""
    await store.ensure_repository(WIDGETS)
    for number in range(4):
        run = make_run(str(number))
        given = make_executions(run, [(test, PASSED) for test in (f"t{number}", *tests)])
        await store.write_results(WIDGETS, {run: given})


async def test_another_process_finds_the_marks_of_a_repository_at_once(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    for number in range(3):
        run = make_run(str(number))
        await store.write_results(WIDGETS, {run: make_executions(run, [("t", PASSED)])})
        assert await other.refresh_tests(NOON, repository=WIDGETS) == 1
        (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
        assert row.key.executions_count == number + 1


async def test_marks_beyond_one_page_are_done_by_the_same_call(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_markers, "_MARKERS_A_PAGE", 1)
    monkeypatch.setattr(stored_markers, "_TESTS_AT_ONCE", 1)
    await mark_in_turn(store)
    assert await store.refresh_tests(NOON, repository=WIDGETS) == 4
    assert await names(store) == ["t0", "t1", "t2", "t3"]


async def test_large_marks_are_done_by_the_same_call(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_markers, "_MARKERS_A_PAGE", 1)
    monkeypatch.setattr(stored_markers, "_BYTES_AT_ONCE", 1)
    await mark_in_turn(store, "all")
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert await names(store) == ["all", "t0", "t1", "t2", "t3"]
    assert (await store.get_status(NOON)).stale_tests == 0


async def test_marks_of_changes_in_progress_do_not_hide_others(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay after they are handled, and may fill a page."""
    monkeypatch.setattr(stored_markers, "_MARKERS_A_PAGE", 1)
    monkeypatch.setattr(stored_markers, "_TESTS_AT_ONCE", 1)
    run = make_run()
    await load_names(store, ["t"], run)
    cluster, routing = cluster_of(store), routing_of(WIDGETS)
    test = str(derive_test_id(WIDGETS, "t"))
    # Their ids come before those of all others.
    going_on = [
        dirty_markers.marker_operation(cluster, f" {number}", routing, [test], ahead=True)
        for number in range(2)
    ]
    await dirty_markers.write_markers(cluster, going_on)
    later = make_run("2")
    await store.write_results(WIDGETS, {later: make_executions(later, [("later", PASSED)])})
    await store.refresh_tests(NOON)
    assert await names(store) == ["later", "t"]


async def test_a_mark_stays_small_however_long_the_names_are(store: ElasticsearchStore) -> None:
    """A refresh holds many marks at once, and other tenants share its memory."""
    await store.ensure_repository(WIDGETS)
    long = "x" * 8_000
    run = make_run(commit=long, pipeline=long, job=long)
    given = make_executions(run, [(f"t{number}", PASSED) for number in range(150)])
    await store.write_results(WIDGETS, {run: given})
    assert (await store.get_status(NOON)).stale_tests == 150
    cluster = cluster_of(store)
    await cluster.connection.refresh(cluster.layout.stale)
    found = await ask(store, "POST", f"/{cluster.layout.stale}/_search", {"size": 10})
    assert len(orjson.dumps(found)) < 3 * 1024 * 1024
    await store.refresh_tests(NOON, repository=WIDGETS)
    assert (await store.get_status(NOON)).stale_tests == 0
    assert len(await names(store)) == 150


async def test_a_test_that_cannot_be_judged_stops_no_other_one(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    repositories, tests = (GADGETS, WIDGETS), ("broken", "hinge", "latch")
    for number in range(2):
        for repository in repositories:
            await store.ensure_repository(repository)
            run = make_run(f"{repository}-{number}", commit=f"c{number}")
            given = make_executions(run, [(t, FAILED) for t in tests], after(days=number - 3))
            await store.write_results(repository, {run: given})
        if number == 0:
            await store.refresh_tests(NOON)
            await damage(store, "broken")
    assert await other.refresh_tests(NOON) == 5
    # Only this test stays marked.
    assert await other.count_stale_tests() == 1
    assert await other.refresh_tests(NOON, repository=WIDGETS) == 0
    assert await other.count_stale_tests() == 1
    found = {
        row.key.test_name: row.key.executions_count
        for row in (await other.search_tests(ALL, Anchor(), 10)).rows
    }
    assert found == {"broken": 1, "hinge": 2, "latch": 2}
    await other.prune(after(days=-1), NOON)
    for name in ("hinge", "latch"):
        detail = await other.get_test(WIDGETS, derive_test_id(WIDGETS, name))
        assert detail is not None
        assert detail.health.first_failure_at == after(days=-3)


async def test_refreshes_during_a_change_mark_a_test_that_cannot_be_judged_once(
    store: ElasticsearchStore,
) -> None:
    await load_names(store, ["broken", "hinge"])
    await damage(store, "broken")
    cluster, routing = cluster_of(store), routing_of(WIDGETS)
    tests = [str(derive_test_id(WIDGETS, name)) for name in ("broken", "hinge")]
    marked = await dirty_markers.mark_before(cluster, routing, tests)
    for _ in range(3):
        await store.refresh_tests(NOON, repository=WIDGETS)
    await dirty_markers.mark_after(cluster, marked)
    for _ in range(2):
        await store.refresh_tests(NOON, repository=WIDGETS)
        (left,), _ = await stored_markers.read_markers(cluster, routing)
        assert left.tests == frozenset(tests[:1])


async def test_a_rebuild_fails_if_another_refresh_meets_a_test_that_cannot_be_judged_first(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the markers page by page, and the other refresh leaves one with that test alone."""
    monkeypatch.setattr(spelled_markers, "TESTS_A_MARKER", 2)
    monkeypatch.setattr(stored_markers, "_MARKERS_A_PAGE", 1)
    stored = [f"t{number}" for number in range(6)]
    await load_names(store, stored)
    cluster = cluster_of(other)

    async def handle_all() -> None:
        markers, _ = await stored_markers.read_markers(cluster, routing_of(WIDGETS))
        last = markers[-1].tests or frozenset()
        await damage(other, next(name for name in stored if name_is_in(name, last)))
        await other.refresh_tests(NOON)
        await cluster.connection.refresh(cluster.layout.stale)

    def reads_a_later_page(target: str, body: Any) -> bool:
        return "-stale/_search" in target and "later-page-" in str(body.get("search_after"))

    run_before(store, monkeypatch, reads_a_later_page, handle_all)
    with pytest.raises(ValueError, match="unexpected end of data"):
        await store.rebuild(NOON)
    assert await names(other) == stored


def name_is_in(name: str, tests: Collection[str]) -> bool:
    return str(derive_test_id(WIDGETS, name)) in tests


async def test_damaged_rollups_are_computed_again(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    for number in range(2):
        run = make_run(str(number), commit=f"c{number}")
        given = make_executions(run, [("t", PASSED)], after(days=number - 3))
        await store.write_results(WIDGETS, {run: given})
        if number == 0:
            await store.refresh_tests(NOON)
            index, routing = cluster_of(store).layout.tests, routing_of(WIDGETS)
            place = f"/{index}/_doc/{derive_test_id(WIDGETS, 't')}?routing={routing}"
            source = (await ask(store, "GET", place))["_source"]
            ((*job, text),) = source["rollups"]
            await ask(store, "PUT", place, {**source, "rollups": [[*job, text[:-1]]]})
    await other.refresh_tests(NOON)
    assert await other.count_stale_tests() == 0
    (row,) = (await other.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.executions_count == 2


async def test_the_log_names_a_test_that_cannot_be_judged(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    derive = Step._derive
    bad = str(derive_test_id(WIDGETS, "bad"))

    def derive_others(step: Step, test: str, rollups: Any) -> Any:
        if test == bad:
            raise OverflowError("no integer")
        return derive(step, test, rollups)

    with monkeypatch.context() as patched:
        patched.setattr(Step, "_derive", derive_others)
        await load_names(store, ["good", "bad"])
        await store.refresh_tests(NOON)
    told = [vars(each) for each in caplog.records if each.name == steps.__name__]
    assert {(each["test_id"], each["repository"]) for each in told} == {(bad, str(WIDGETS))}
    await store.refresh_tests(NOON)
    assert await store.count_stale_tests() == 0


async def test_a_repository_with_a_damaged_quarantine_stops_no_other(
    store: ElasticsearchStore, other: ElasticsearchStore, caplog: pytest.LogCaptureFixture
) -> None:
    await load_names(store, ["t"])
    await store.add_quarantine(WIDGETS, QuarantineRequest("t", "flaps"), NOON)
    index, routing = cluster_of(store).layout.quarantines, routing_of(WIDGETS)
    slot = derive_quarantine_slot_id(derive_test_id(WIDGETS, "t"), None).hex()
    place = f"/{index}/_doc/{slot}?refresh=true&routing={routing}"
    source = (await ask(store, "GET", place))["_source"]
    damaged = {name: value for name, value in source.items() if name != "ended"}
    await ask(store, "PUT", place, damaged)
    for repository in (GADGETS, WIDGETS):
        await store.ensure_repository(repository)
        run = make_run("2", commit="second")
        given = make_executions(run, [("t", FAILED)], after(hours=1), repository=repository)
        await store.write_results(repository, {run: given})
    assert await other.refresh_tests(NOON) == 1
    assert await other.count_stale_tests() == 1
    assert "tests of a repository cannot be judged" in caplog.text
    await other.prune(after(days=-1), NOON)
    gadgets = await other.get_test(GADGETS, derive_test_id(GADGETS, "t"))
    assert gadgets is not None
    assert gadgets.health.last_failure_at == after(hours=1)
    await ask(store, "PUT", place, source)
    assert await other.refresh_tests(NOON) == 1
    assert await other.count_stale_tests() == 0


async def test_a_load_judges_no_tests_that_a_rebuild_is_to_judge(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    names_of_all = [f"t{number}" for number in range(30)]
    await load_names(store, names_of_all)
    cluster, routing = cluster_of(store), routing_of(WIDGETS)
    await dirty_markers.mark_repository(cluster, routing, later=True)
    run = make_run("new", commit="new")
    given = make_executions(run, [("t5", FAILED), ("new", PASSED)], after(hours=1))
    await other.write_results(WIDGETS, {run: given})
    assert await other.refresh_tests(NOON, repository=WIDGETS) == 2
    found = {
        row.key.test_name: row.key.executions_count
        for row in (await other.search_tests(ALL, Anchor(), 100)).rows
    }
    assert found == {**dict.fromkeys(names_of_all, 1), "t5": 2, "new": 1}
    assert (await other.get_status(NOON)).stale_tests == 31
    # Nor does another process, which searches for the markers.
    assert await store.refresh_tests(NOON, repository=WIDGETS) == 0
    assert await store.refresh_tests(NOON) == 31
    assert await store.count_stale_tests() == 0


async def test_the_next_load_completes_a_prune_that_was_killed_before_it_wrote_rows(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    for days in (-20, -1):
        run = make_run(str(days), commit=str(days))
        given = make_executions(run, [("t", FAILED)], after(days=days))
        await store.write_results(WIDGETS, {run: given})
    await store.refresh_tests(NOON)
    write_rows = Step._write_rows

    async def die(self: Step, rows: Sequence[Operation], listed: Sequence[Operation]) -> Any:
        if rows:
            raise KilledError
        return await write_rows(self, rows, listed)

    with monkeypatch.context() as patch:
        patch.setattr(Step, "_write_rows", die)
        with pytest.raises(KilledError):
            await store.prune(after(days=-10), NOON)
    run = make_run("other", commit="other")
    await other.write_results(WIDGETS, {run: make_executions(run, [("u", PASSED)], NOON)})
    await other.refresh_tests(NOON, repository=WIDGETS)
    await other.prune(after(days=-10), NOON)
    rows = (await other.search_tests(ALL, Anchor(), 10)).rows
    await other.rebuild(NOON)
    assert (await other.search_tests(ALL, Anchor(), 10)).rows == rows
