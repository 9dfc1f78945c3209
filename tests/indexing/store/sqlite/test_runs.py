"""How the embedded store counts, judges and deletes runs, and the cost.

Cost is measured in steps of SQLite, which are the same on every machine.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.selections import ExecutionSelection
from indexing.names import RepositoryName
from indexing.store.sqlite import maintenance
from indexing.store.sqlite.events import find_repositories, write_events
from indexing.store.sqlite.executions import write_results
from indexing.store.sqlite.migrations import MIGRATIONS
from indexing.store.sqlite.repositories import ensure_repository
from indexing.store.sqlite.schema import ensure_schema
from indexing.store.sqlite.store import SqliteStore
from indexing.timestamps import to_microseconds
from tests.builders import NOON, WIDGETS, after, make_event, make_executions, make_run
from tests.contracts.loading import load, state
from tests.indexing.store.sqlite import steps

PASSED, FAILED, SKIPPED = Conclusion
JOB_RUNS = (
    "SELECT run_id, attempt, passed, failed, infrastructure_failure FROM job_runs ORDER BY 1, 2"
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    with contextlib.closing(opened):
        ensure_schema(opened)
        ensure_repository(opened, WIDGETS)
        yield opened


def commits(count: int, label: str = "c") -> Mapping[Run, Sequence[Execution]]:
    """One result for each commit of one job."""
    runs = [make_run("1", commit=f"{label}{number}") for number in range(count)]
    return {run: make_executions(run, [("t", PASSED)]) for run in runs}


def count_steps(
    connection: sqlite3.Connection, results: Mapping[Run, Sequence[Execution]], each: int
) -> int:
    """The steps of writing the results, in units of `each`."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.execute("BEGIN")
    connection.set_progress_handler(step, each)
    write_results(connection, WIDGETS, results)
    connection.set_progress_handler(None, 0)
    connection.execute("COMMIT")
    return steps


def test_commits_of_one_job_cost_in_proportion_to_their_number(
    connection: sqlite3.Connection,
) -> None:
    few, many = (
        [count_steps(connection, commits(count, f"{count}-{n}-"), 1_000) for n in range(3)]
        for count in (250, 1_000)
    )
    # By the third time, the store already holds that much of the job.
    for once, four_times in zip(few, many, strict=True):
        assert four_times <= 6 * once


def test_a_small_request_costs_the_same_however_large_its_run_is(
    connection: sqlite3.Connection,
) -> None:
    costs = []
    for number in range(2):
        count_steps(connection, commits(1_000 * number + 10, f"{number}-"), 100_000)
        costs.append(count_steps(connection, commits(1, f"small-{number}-"), 10))
    assert costs[1] <= 1.5 * costs[0]


def test_counts_of_a_job_follow_what_is_stored_of_it(connection: sqlite3.Connection) -> None:
    run, again = make_run("1"), make_run("1", attempt=2)
    results = {
        run: make_executions(run, [("t", PASSED), ("u", FAILED)]),
        again: make_executions(again, [("t", FAILED)], after(hours=2)),
    }
    for _ in range(2):
        write_results(connection, WIDGETS, results)
        assert connection.execute(JOB_RUNS).fetchall() == [("1", 1, 1, 1, 0), ("1", 2, 0, 1, 0)]
    # A refresh judges them, and retention removes nothing before that.
    assert maintenance.prune_executions(connection, after(hours=1), 10) == 0
    connection.execute("DELETE FROM unmerged")
    assert maintenance.prune_executions(connection, after(hours=1), 10) == 2
    assert connection.execute(JOB_RUNS).fetchall() == [("1", 2, 0, 1, 0)]
    write_results(connection, WIDGETS, results)
    assert connection.execute(JOB_RUNS).fetchall() == [("1", 1, 1, 1, 0), ("1", 2, 0, 1, 0)]


def test_a_step_of_retention_costs_the_same_however_large_the_run_is(
    connection: sqlite3.Connection,
) -> None:
    """A run may be as large as its sender likes, and it loses its results in many steps."""
    before, costs = after(days=10), []
    for count in (300, 3_000):
        run = make_run(f"{count}")
        names = [(f"{count} {number}", PASSED) for number in range(count)]
        write_results(connection, WIDGETS, {run: make_executions(run, names)})
        connection.execute("DELETE FROM unmerged")
        # The first step marks the days as final.
        for _ in range(2):
            step = partial(maintenance.prune_executions, connection, before, 100)
            costs.append(steps.count_steps(connection, step))
        while step():
            pass
    _, small, _, large = costs
    assert large <= 1.5 * small


def test_a_step_of_retention_looks_at_no_repository_without_old_events(
    connection: sqlite3.Connection,
) -> None:
    costs = []
    for count in (1, 300):
        for number in range(count):
            ensure_repository(connection, RepositoryName("acme", f"{count}-{number}"))
        write_events(connection, [make_event(count), make_event(count + 1, after(days=2))])
        old = deque(find_repositories(connection, after(days=1)))
        step = partial(maintenance.prune_events, connection, after(days=1), old, 10)
        costs.append(steps.count_steps(connection, step))
        assert step() == 0
    assert connection.execute("SELECT id FROM events ORDER BY 1").fetchall() == [(2,), (301,)]
    assert costs[1] <= 1.5 * costs[0]


def test_retention_leaves_the_counts_of_what_is_left_of_a_run(
    connection: sqlite3.Connection,
) -> None:
    run = make_run("1")
    results = [*make_executions(run, [("t", PASSED), ("u", FAILED)])]
    results += make_executions(run, [("t", FAILED), ("u", SKIPPED), ("v", PASSED)], after(hours=2))
    write_results(connection, WIDGETS, {run: results})
    counts = "SELECT passed, failed, skipped, last_finished_at FROM runs"
    newest = to_microseconds(after(hours=2))
    assert connection.execute(counts).fetchall() == [(2, 2, 1, newest)]
    # What is not judged yet stays, though it is the oldest.
    connection.execute(
        "DELETE FROM unmerged WHERE execution NOT IN (SELECT min(id) FROM executions)"
    )
    for limit, left in ((1, (2, 1, 1, newest)), (3, (1, 0, 0, to_microseconds(NOON)))):
        assert maintenance.prune_executions(connection, after(hours=3), limit) == limit
        assert connection.execute(counts).fetchall() == [left]
    connection.execute("DELETE FROM unmerged")
    assert maintenance.prune_executions(connection, after(hours=3), 10) == 1
    assert connection.execute(counts).fetchall() == []


def test_a_store_of_an_earlier_version_is_counted_as_it_is_upgraded(
    connection: sqlite3.Connection,
) -> None:
    broken = make_run("1")
    write_results(connection, WIDGETS, commits(3))
    failures = [(f"t{number}", FAILED) for number in range(30)]
    write_results(connection, WIDGETS, {broken: make_executions(broken, failures)})
    before = connection.execute(JOB_RUNS).fetchall()
    assert before == [("1", 1, 3, 30, 1)]
    connection.execute("DROP TABLE job_runs")
    MIGRATIONS[2](connection)
    assert connection.execute(JOB_RUNS).fetchall() == before


async def test_a_removal_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill may happen after any of its transactions."""

    class KilledError(Exception):
        pass

    monkeypatch.setattr("indexing.store.sqlite.store._REMOVED_A_STEP", 1)
    store = await SqliteStore.open(tmp_path / "kills.db")
    write = store._connections.write
    left = 0

    async def die(work: Callable[[sqlite3.Connection], object]) -> object:
        nonlocal left
        if not left:
            raise KilledError
        left -= 1
        return await write(work)

    async def fill() -> None:
        names = [f"t{number}" for number in range(19)]
        await load(store, make_run("1", commit="a"), *((n, FAILED) for n in (*names, "t")))
        await load(store, make_run("9", commit="x"), ("t", FAILED), ("u", PASSED), at=-1)

    selection = ExecutionSelection(WIDGETS, run_id="9")
    await fill()
    await store.remove_executions(selection, NOON)
    await store.forget_test(WIDGETS, "t", NOON)
    expected = await state(store, ("t", "t0", "u"))
    allowed, killed = 0, True
    while killed:
        await fill()
        left = allowed
        allowed += 1
        with monkeypatch.context() as patch:
            patch.setattr(store._connections, "write", die)
            try:
                await store.remove_executions(selection, NOON)
                await store.forget_test(WIDGETS, "t", NOON)
                killed = False
            except KilledError:
                pass
        await store.remove_executions(selection, NOON)
        await store.forget_test(WIDGETS, "t", NOON)
        assert await state(store, ("t", "t0", "u")) == expected, allowed
    assert allowed > 5
    await store.close()
