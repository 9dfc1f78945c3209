"""A refresh reads and writes many tests with each statement."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store import open_store
from indexing.store.interface import Store
from indexing.store.sqlite import maintenance, refresh, refreshing
from indexing.store.sqlite.connections import Connections, connect
from indexing.store.sqlite.executions import write_results
from indexing.store.sqlite.refresh import RefreshError, refresh_some
from indexing.store.sqlite.repositories import ensure_repository
from indexing.store.sqlite.schema import ensure_schema
from indexing.store.sqlite.stored_tests import StoredTest
from tests.builders import GADGETS, NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.sqlite.derived_data import dump
from tests.indexing.store.sqlite.steps import count_steps
from tests.new_stores import open_new_store

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


def test_new_and_known_tests_are_read_together(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "store.db", 10, sqlite3.Connection)) as connection:
        ensure_schema(connection)
        ensure_repository(connection, WIDGETS)
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        for number in range(3):
            run = make_run(str(number), commit=f"c{number}")
            results = [(f"t{test}", PASSED) for test in range(30)]
            executions = make_executions(run, results, after(days=number - 3))
            write_results(connection, WIDGETS, {run: executions})
            statements.clear()
            done, *_ = refresh_some(connection, 100, NOON, WIDGETS, 10, noting=True)
            assert done == 30
            assert sum(statement.startswith("SELECT") for statement in statements) < 10


async def test_any_number_of_new_executions_of_several_tests_is_merged(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    for number in range(90):
        run = make_run(str(number), commit=f"c{number}")
        conclusion = FAILED if number % 7 == 0 else PASSED
        results = [(f"t{test}", conclusion) for test in range(7)]
        executions = make_executions(run, results, after(hours=number - 90))
        await store.write_results(WIDGETS, {run: executions})
    assert await store.refresh_tests(NOON) == 7
    merged = dump(tmp_path)
    assert (await store.get_status(NOON)).stale_tests == 0
    await store.rebuild(NOON)
    await store.close()
    assert dump(tmp_path) == merged


@pytest.mark.parametrize("branch", ["main", "next"])
@pytest.mark.parametrize("results", [[PASSED], [FAILED], [SKIPPED], [PASSED, PASSED]])
async def test_new_tests_are_stored_like_recomputed_ones(
    tmp_path: Path, branch: str, results: list[Conclusion]
) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    for number, conclusion in enumerate(results):
        run = make_run(str(number), branch=branch, commit=f"c{number}")
        executions = make_executions(
            run, [("t", conclusion)], after(hours=number - 3), duration=0.1, framework="pytest"
        )
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    merged = dump(tmp_path), read_rows(tmp_path)
    await store.rebuild(NOON)
    await store.close()
    assert (dump(tmp_path), read_rows(tmp_path)) == merged
    # After a rebuild without its derived rows, nothing of the first refresh is left.
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection, connection:
        for table in ("rollups", "daily_rollups", "health_changes"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
        connection.execute("UPDATE tests SET history = NULL")
    store = await open_store(tmp_path)
    await store.rebuild(NOON)
    await store.close()
    assert (dump(tmp_path), read_rows(tmp_path)) == merged


def read_rows(folder: Path) -> list[tuple[object, ...]]:
    """All columns of identities and tests."""
    with closing(sqlite3.connect(folder / "mergewatch.db")) as connection:
        return [
            *connection.execute("SELECT * FROM identities"),
            *connection.execute("SELECT * FROM tests"),
        ]


def test_stale_tests_of_others_cost_a_refresh_nothing(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "store.db", 10, sqlite3.Connection)) as connection:
        ensure_schema(connection)
        costs: list[int] = []
        for number in (1, 1_000):
            for repository, tests in ((GADGETS, number), (WIDGETS, 1)):
                ensure_repository(connection, repository)
                run = make_run(f"{repository}-{number}", commit=f"c{number}")
                results = [(f"t{number}-{test}", PASSED) for test in range(tests)]
                write_results(connection, repository, {run: make_executions(run, results, NOON)})

            def refresh_one() -> None:
                done, *_ = refresh_some(connection, 100, NOON, WIDGETS, 10, noting=False)
                assert done == 1

            costs.append(count_steps(connection, refresh_one))
    assert costs[1] < costs[0] + 200


async def load_everywhere(store: Store, number: int) -> None:
    for repository in (GADGETS, WIDGETS):
        await store.ensure_repository(repository)
        run = make_run(f"{repository}-{number}", commit=f"c{number}")
        results = [(f"t{test}", PASSED) for test in range(300)]
        executions = make_executions(run, results, after(days=number - 3))
        await store.write_results(repository, {run: executions})


@pytest.mark.parametrize("damage", ["rollups SET state", "tests SET history"])
async def test_a_test_whose_derived_data_are_damaged_is_computed_again(
    tmp_path: Path, damage: str
) -> None:
    store = await open_new_store(tmp_path)
    await load_everywhere(store, 0)
    await store.refresh_tests(NOON)
    await load_everywhere(store, 1)
    await store.refresh_tests(NOON)
    expected = dump(tmp_path)
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        connection.execute(f"UPDATE {damage} = x'7b' WHERE rowid IN (5, 17, 420)")
        connection.execute(
            "INSERT INTO stale_tests (test, repository_id, recompute)"
            " SELECT id, repository_id, 0 FROM tests"
        )
        connection.commit()
    assert await store.refresh_tests(NOON) == 600
    assert await store.count_stale_tests() == 0
    assert dump(tmp_path) == expected
    await store.close()


def fail_for(monkeypatch: pytest.MonkeyPatch, *tests: str) -> None:
    """Make the rules fail for these tests."""
    run = refresh._Refresh.run

    def judge(self: Any, test: StoredTest, **options: Any) -> None:
        if not tests or test.test_name in tests:
            raise OverflowError("no integer of SQLite")
        run(self, test, **options)

    monkeypatch.setattr(refresh._Refresh, "run", judge)


async def test_a_test_that_cannot_be_judged_stops_no_other_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_new_store(tmp_path)
    await load_everywhere(store, 0)
    await store.refresh_tests(NOON)
    expected = dump(tmp_path)
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        connection.execute(
            "INSERT INTO stale_tests (test, repository_id) SELECT id, repository_id FROM tests"
        )
        connection.commit()
    with monkeypatch.context() as patch:
        fail_for(patch, "t5", "t17")
        assert await store.refresh_tests(NOON) == 596
        assert await store.count_stale_tests() == 4
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert {(vars(record)["test_id"], vars(record)["repository"]) for record in told} == {
        (str(derive_test_id(repository, name)), str(repository))
        for repository in (WIDGETS, GADGETS)
        for name in ("t5", "t17")
    }
    assert len(told) == 4
    assert dump(tmp_path) == expected
    assert await store.refresh_tests(NOON) == 4
    assert dump(tmp_path) == expected
    await store.close()


async def test_a_refresh_fails_if_no_test_can_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "_MOST_LEFT_OUT", 3)
    store = await open_new_store(tmp_path)
    await load_everywhere(store, 0)
    with monkeypatch.context() as patch:
        fail_for(patch)
        with pytest.raises(RefreshError):
            await store.refresh_tests(NOON)
    assert await store.refresh_tests(NOON) == 600
    await store.close()


async def test_a_load_judges_no_tests_that_a_rebuild_is_to_judge(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    for number in range(2):
        await load_everywhere(store, number)
    await store.refresh_tests(NOON)
    rebuilding = Connections.open(tmp_path / "mergewatch.db")
    assert (await rebuilding.write(maintenance.mark_all))[0] == 600
    await rebuilding.close()
    run = make_run("new", commit="new")
    uploaded = make_executions(run, [("t5", FAILED), ("new", PASSED)], after(hours=-1))
    await store.write_results(WIDGETS, {run: uploaded})
    assert await store.refresh_tests(NOON, repository=WIDGETS) == 2
    assert await store.count_stale_tests() == 599
    page = await store.search_tests(TestQuery(WIDGETS, ("t5", "new")), Anchor(), 10)
    found = {row.key.test_name: row.key.executions_count for row in page.rows}
    assert found == {"new": 1, "t5": 3}
    assert await store.refresh_tests(NOON) == 599
    rebuilt = dump(tmp_path)
    await store.rebuild(NOON)
    assert dump(tmp_path) == rebuilt
    await store.close()
