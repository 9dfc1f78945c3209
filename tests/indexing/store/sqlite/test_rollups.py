"""Roll-ups in the SQLite file: equal to a full recomputation, and what they cost and outlive."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.identifiers import derive_test_id
from indexing.models.repositories import RepositoryChange
from indexing.store.interface import Store
from indexing.store.sqlite import maintenance
from indexing.store.sqlite.connections import connect
from indexing.store.sqlite.executions import write_results
from indexing.store.sqlite.migrations import version_15, version_17
from indexing.store.sqlite.refresh import refresh_some
from indexing.store.sqlite.store import SqliteStore
from tests.builders import NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.indexing.store.sqlite.derived_data import dump
from tests.load_steps import CHANGES, FAILED, HISTORIES, PASSED, Change, Report, change, load, split
from tests.new_stores import open_new_store
from tests.servers.folder import memory

LATER = after(days=1)


async def run_steps(
    store: Store, steps: list[Report | Change], refresh: random.Random | None
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    for number, step in enumerate(steps):
        if isinstance(step, Report):
            await load(store, WIDGETS, step, number=hash_of(step))
        elif step.what == "repeat":
            for other in steps[:number]:
                if isinstance(other, Report):
                    await load(store, WIDGETS, other, number=hash_of(other))
        else:
            await change(store, WIDGETS, step, LATER)
        if refresh is not None and refresh.random() < 0.8:
            await store.refresh_tests(LATER)
    await store.refresh_tests(LATER)


def hash_of(report: Report) -> int:
    """A number that tells reports apart, the same wherever they are in a history."""
    return sum(repr(report).encode()) % 60


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    HISTORIES,
    st.lists(st.tuples(st.integers(0, 50), CHANGES), max_size=4),
    st.booleans(),
    st.randoms(use_true_random=False),
)
async def test_what_is_merged_equals_a_full_recomputation(
    reports: list[Report], changes: list[tuple[int, Change]], by_time: bool, order: random.Random
) -> None:
    if by_time:
        reports = sorted(reports, key=lambda report: report.hours)
    with TemporaryDirectory(dir=memory()) as folder:
        store = await open_new_store(Path(folder))
        await run_steps(store, split(reports, changes), order)
        merged = dump(Path(folder))
        await store.rebuild(LATER)
        await store.close()
        assert merged == dump(Path(folder))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(HISTORIES, st.randoms(use_true_random=False))
async def test_any_order_and_any_split_end_in_the_same_state(
    reports: list[Report], order: random.Random
) -> None:
    found = []
    for shuffled in (False, True):
        if shuffled:
            reports = order.sample(reports, len(reports))
        with TemporaryDirectory(dir=memory()) as folder:
            store = await open_new_store(Path(folder))
            await run_steps(store, list(reports), order if shuffled else None)
            await store.close()
            found.append(dump(Path(folder)))
    assert found[0] == found[1]


async def test_a_rerun_of_a_commit_that_is_no_longer_kept_is_seen(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    for number in range(30):
        await load(store, WIDGETS, Report(-30 + number, f"c{number}", PASSED), number=0)
        await store.refresh_tests(LATER)
    await load(store, WIDGETS, Report(-1, "c0", FAILED, others=PASSED), number=30)
    await store.refresh_tests(LATER)
    merged = dump(tmp_path)
    ((*_, flakiness, _, _, _, _, _, _),) = [row for row in merged["tests"] if row[0] == "t"]
    assert flakiness == 1 / 30
    await store.rebuild(LATER)
    await store.close()
    assert merged == dump(tmp_path)


async def test_a_load_reads_no_history(tmp_path: Path) -> None:
    """Counted in steps of the virtual machine of SQLite: the machine need not be calm."""
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    await store.close()
    steps = []
    with closing(connect(tmp_path / "mergewatch.db", 10, sqlite3.Connection)) as connection:
        for number in range(600):
            run = make_run(str(number), commit=f"c{number}")
            at = after(minutes=number - 600)
            executions = make_executions(run, [("t", PASSED)], at)
            counted = 0

            def count() -> int:
                nonlocal counted
                counted += 1
                return 0

            connection.set_progress_handler(count, 1)
            write_results(connection, WIDGETS, {run: executions})
            refresh_some(connection, 10, NOON, WIDGETS, 10, noting=True)
            connection.set_progress_handler(None, 0)
            steps.append(counted)
    assert max(steps[-100:]) < 1.5 * max(steps[30:60])


@pytest.mark.parametrize("quarantined", [True, False])
async def test_daily_rows_outlive_executions_until_their_own_retention(
    tmp_path: Path, quarantined: bool
) -> None:
    store = await open_new_store(tmp_path)
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=quarantined), NOON)
    for day in range(10):
        conclusion = FAILED if day == 3 else PASSED
        await load(store, WIDGETS, Report(24 * (day - 9), f"c{day}", conclusion), number=0)
        await store.refresh_tests(NOON)
    before = dump(tmp_path)["days"]
    assert len(before) == 10
    await store.prune(after(days=-4.1), NOON)
    assert dump(tmp_path)["days"] == before
    assert (await store.get_status(NOON)).executions == 5
    await store.rebuild(NOON)
    assert dump(tmp_path)["days"] == before
    # What arrives for a day that retention has reached changes nothing either.
    await load(store, WIDGETS, Report(24 * -7, "late", FAILED), number=1)
    await store.refresh_tests(NOON)
    assert dump(tmp_path)["days"] == before
    await store.prune(after(days=-4.1), NOON, rollups_before=after(days=-6))
    assert dump(tmp_path)["days"] == before[3:]
    await store.close()


async def test_daily_rows_of_another_default_branch_go(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    for branch, conclusion in (("main", PASSED), ("next", FAILED)):
        report = Report(0, "c", conclusion, branch=branch)
        await store.ensure_repository(WIDGETS)
        await load(store, WIDGETS, report, number=0)
    await store.refresh_tests(NOON)
    assert [row[3:6] for row in dump(tmp_path)["days"]] == [(1, 0, 0)]
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="next"), NOON)
    await store.refresh_tests(NOON)
    assert [row[3:6] for row in dump(tmp_path)["days"]] == [(0, 1, 0)]
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="gone"), NOON)
    await store.refresh_tests(NOON)
    assert dump(tmp_path)["days"] == []
    await store.close()


async def test_the_history_of_what_an_earlier_release_pruned_ends_with_its_branch(
    tmp_path: Path,
) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    for number in range(3):
        report = Report(-24 * 40 + number, f"c{number}", FAILED)
        await load(store, WIDGETS, report, number=0)
    await store.refresh_tests(NOON)
    await store.prune(after(days=-30), NOON)
    assert dump(tmp_path)["changes"] != []
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection, connection:
        # As the earlier release left it.
        assert connection.execute("UPDATE rollups SET branch = NULL").rowcount == 1
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="next"), NOON)
    await store.refresh_tests(NOON)
    assert dump(tmp_path)["changes"] == []
    await store.close()


async def test_an_upgraded_store_knows_which_flaky_verdicts_go_on(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    for hours, conclusion in ((-96, FAILED), (-72, PASSED)):
        await load(store, WIDGETS, Report(hours, "c", conclusion), number=0)
    await store.refresh_tests(NOON)
    derived = dump(tmp_path)
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection, connection:
        connection.execute("ALTER TABLE tests DROP COLUMN lasting_verdicts")
        connection.execute("DROP TABLE stale_tests")
        connection.execute(
            "CREATE TABLE stale_tests (test INTEGER PRIMARY KEY, recompute DEFAULT 1)"
        )
        version_15.migrate(connection)
        version_17.migrate(connection)
    await load(store, WIDGETS, Report(-48, "c", FAILED), number=0)
    await store.refresh_tests(NOON)
    assert dump(tmp_path)["history"] == derived["history"]
    await store.prune(after(hours=-80), NOON)
    assert dump(tmp_path)["flaky days"] == derived["flaky days"] != []
    await store.close()


@pytest.mark.parametrize("step", [maintenance.prune_executions, maintenance.prune_events])
async def test_old_results_that_arrive_during_a_prune_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: object
) -> None:
    """A test keeps its first and last failure when retention removes its executions."""
    store = await open_new_store(tmp_path)
    await load_names(store, ["t"])
    run = make_run("old", commit="old")
    old = make_executions(run, [("t", FAILED)], after(days=-200))
    assert isinstance(store, SqliteStore)
    connections = store._connections
    write_in_steps = connections.write_in_steps

    async def load_before(work: Any) -> int:
        if work.keywords["delete"].func is step:
            await store.write_results(WIDGETS, {run: old})
        return await write_in_steps(work)

    monkeypatch.setattr(connections, "write_in_steps", load_before)
    assert (await store.prune(after(days=-90), NOON)).executions == 0
    monkeypatch.undo()
    assert (await store.prune(after(days=-90), NOON)).executions == 1
    detail = await store.get_test(WIDGETS, derive_test_id(WIDGETS, "t"))
    assert detail is not None
    assert detail.health.first_failure_at == after(days=-200)
    await store.close()


async def test_the_detail_of_a_forgotten_test_leaves_nothing(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    await load(store, WIDGETS, Report(0, "c", PASSED), number=0)
    await store.refresh_tests(NOON)
    await store.forget_test(WIDGETS, "t", NOON)
    await store.close()
    assert not any(dump(tmp_path).values())
