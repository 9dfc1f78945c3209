"""Removes executions for an operator and corrects the derived data of their tests.

The bounds of a test (first failure, last failure, last success) outlive the executions that they
come from, which are those on the default branch. So a bound that may come from a removed execution
is cleared in the same transaction and recomputed from the remaining executions. Retention keeps the
bounds; it uses only `delete_executions` and `drop_pruned`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from indexing.accepted_times import AcceptedTimes
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.selections import ExecutionSelection, SelectionExtent
from indexing.names import RepositoryName
from indexing.store.interface import ForgetCount
from indexing.store.sqlite import notices
from indexing.store.sqlite.auto_quarantine import withdraw_automatic
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.columns import CONCLUSION_NUMBERS
from indexing.store.sqlite.histories import forget_history
from indexing.store.sqlite.job_runs import JobRun, add_results, drop_results, drop_without_runs
from indexing.store.sqlite.listed_runs import count_again, subtract_from_run
from indexing.store.sqlite.rollups import read_final_day
from indexing.store.sqlite.run_days import drop_days
from indexing.store.sqlite.search.name_index import remove_name
from indexing.store.sqlite.stale_tests import mark_found, mark_stale
from indexing.timestamps import moment_or_none, to_microseconds

_GIVEN: Final = "SELECT value FROM json_each(?)"
_SOURCE: Final = (
    "executions e JOIN identities i ON i.id = e.identity JOIN runs r ON r.id = e.run"
    " JOIN repositories p ON p.id = r.repository_id"
)
# The bounds of a test, each with the columns that are cleared together with it.
_BOUNDS: Final = {
    "first_failure_at": ("first_failure_at", "first_failure_commit", "first_failure_pull"),
    "last_failure_at": ("last_failure_at",),
    "last_success_at": ("last_success_at",),
}


class RemovedResults(NamedTuple):
    """How many results of a run were removed, and when the newest of them finished."""

    run: int
    job: JobRun
    passed: int
    failed: int
    skipped: int
    newest: int


# Called after the removal of results, with their runs; those without any results are gone.
Recount = Callable[[sqlite3.Connection, Sequence[RemovedResults]], None]


def measure(connection: sqlite3.Connection, selection: ExecutionSelection) -> SelectionExtent:
    where, values = _conditions(selection)
    executions, tests, oldest, newest = connection.execute(
        "SELECT count(*), count(DISTINCT i.test), min(e.finished_at), max(e.finished_at)"
        f" FROM {_SOURCE} WHERE {where}",
        values,
    ).fetchone()
    bounds = 0
    if selection.outside is not None:
        bounds = len(_find_misdated_bounds(connection, selection.repository, selection.outside))
    return SelectionExtent(
        executions, tests, moment_or_none(oldest), moment_or_none(newest), bounds
    )


def remove_some(connection: sqlite3.Connection, selection: ExecutionSelection, limit: int) -> int:
    """Remove up to `limit` of the selected executions; return their number."""
    where, values = _conditions(selection)
    rows = connection.execute(
        "SELECT e.id, i.test, e.finished_at,"
        " (SELECT b.name FROM branches b WHERE b.id = e.branch) = p.default_branch"
        f" FROM {_SOURCE} WHERE {where} LIMIT ?",
        (*values, limit),
    ).fetchall()
    # A change of the default branch has cleared the bounds of another one.
    _drop_bounds(connection, {(test, moment) for _, test, moment, is_default in rows if is_default})
    mark_stale(connection, {test for _, test, *_ in rows})
    delete_executions(connection, [row[0] for row in rows], _evaluate_again)
    return len(rows)


def drop_misdated(
    connection: sqlite3.Connection,
    repository: RepositoryName | None,
    accepted: AcceptedTimes,
    now: datetime,
) -> None:
    """Clear bounds of tests outside the accepted times, even if no execution has that time.

    Quarantine decisions based on later times count as made at `now`.
    """
    _drop_bounds(connection, _find_misdated_bounds(connection, repository, accepted))
    within, values = _of_repository("q.repository_id", repository)
    for column in ("judged_until", "evidence_until"):
        mark_found(
            connection,
            "SELECT t.id FROM quarantines q"
            f" JOIN tests t ON t.test_id = q.test_id WHERE q.{column} > ?{within}",
            (to_microseconds(accepted.latest), *values),
        )
        connection.execute(
            f"UPDATE quarantines AS q SET {column} = ? WHERE q.{column} > ?{within}",
            (to_microseconds(now), to_microseconds(accepted.latest), *values),
        )


def forget_test(
    connection: sqlite3.Connection, repository: RepositoryName, test_name: str, now: datetime
) -> ForgetCount:
    """Remove a test and everything that is stored of it; its quarantines keep their log."""
    test_id = derive_test_id(repository, test_name).bytes
    found = connection.execute(
        "SELECT id, repository_id FROM tests WHERE test_id = ?", (test_id,)
    ).fetchone()
    if found is None:
        return ForgetCount(tests=0, executions=0)
    test, repository_id = found
    left = connection.execute(
        "SELECT e.id FROM executions e JOIN identities i ON i.id = e.identity WHERE i.test = ?",
        (test,),
    ).fetchall()
    delete_executions(connection, [row[0] for row in left], _evaluate_again)
    withdraw_automatic(connection, test_id, to_microseconds(now))
    connection.execute(
        "UPDATE quarantines SET is_recovered = 0, recovery = NULL"
        " WHERE test_id = ? AND removed_at IS NULL",
        (test_id,),
    )
    notices.forget(connection, test_id)
    remove_name(connection, repository_id, test, test_name)
    forget_history(connection, test)
    for table in ("daily_rollups", "rollups"):
        connection.execute(
            f"DELETE FROM {table} WHERE identity IN (SELECT id FROM identities WHERE test = ?)",
            (test,),
        )
    for table in ("stale_tests", "unmerged"):
        connection.execute(f"DELETE FROM {table} WHERE test = ?", (test,))
    connection.execute("DELETE FROM identities WHERE test = ?", (test,))
    connection.execute("DELETE FROM tests WHERE id = ?", (test,))
    return ForgetCount(tests=1, executions=len(left))


def delete_executions(
    connection: sqlite3.Connection, executions: Sequence[int], recount: Recount
) -> None:
    """Delete these executions, and the runs and jobs that have none left."""
    given = json_array(executions)
    numbers = (Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED)
    counts = ", ".join("count(*) FILTER (WHERE e.conclusion = ?)" for _ in numbers)
    groups = connection.execute(
        "SELECT r.id, r.repository_id, r.run_id, r.attempt, r.pipeline_name, r.job_name,"
        f" {counts}, max(e.finished_at)"
        f" FROM executions e JOIN runs r ON r.id = e.run WHERE e.id IN ({_GIVEN}) GROUP BY r.id",
        (*(CONCLUSION_NUMBERS[each] for each in numbers), given),
    ).fetchall()
    removed = [RemovedResults(run, JobRun(*of[:-4]), *of[-4:]) for run, *of in groups]
    connection.execute(f"DELETE FROM executions WHERE id IN ({_GIVEN})", (given,))
    connection.executemany(
        "DELETE FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM executions WHERE run = ?1)",
        [(each.run,) for each in removed],
    )
    recount(connection, removed)
    for job in {each.job for each in removed}:
        drop_without_runs(connection, job)


def drop_pruned(connection: sqlite3.Connection, removed: Sequence[RemovedResults]) -> None:
    """Subtract results that retention has deleted, whose days are final.

    A run loses its results in many steps, so none of them counts what is left. Jobs are not checked
    again for an infrastructure failure.
    """
    final_day = read_final_day(connection)
    for each in removed:
        subtract_from_run(
            connection, each.run, (each.passed, each.failed, each.skipped), each.newest
        )
        drop_days(connection, each.run, final_day)
        drop_results(connection, each.job, each.passed, each.failed)


def _evaluate_again(connection: sqlite3.Connection, removed: Sequence[RemovedResults]) -> None:
    """Count what is left, and check again for infrastructure failures."""
    count_again(connection, [each.run for each in removed])
    passed: Counter[JobRun] = Counter()
    failed: Counter[JobRun] = Counter()
    for each in removed:
        passed[each.job] += each.passed
        failed[each.job] += each.failed
    for job in passed:
        add_results(connection, job, -passed[job], -failed[job])


def _drop_bounds(connection: sqlite3.Connection, moments: Iterable[tuple[int, int]]) -> None:
    """Clear the bounds with these values; each is given as (test, microseconds)."""
    moments = list(moments)
    for bound, columns in _BOUNDS.items():
        dropped = ", ".join(f"{column} = NULL" for column in columns)
        connection.executemany(f"UPDATE tests SET {dropped} WHERE id = ? AND {bound} = ?", moments)
    mark_stale(connection, {test for test, _ in moments})


def _find_misdated_bounds(
    connection: sqlite3.Connection, repository: RepositoryName | None, accepted: AcceptedTimes
) -> set[tuple[int, int]]:
    within, values = _of_repository("t.repository_id", repository)
    found: set[tuple[int, int]] = set()
    for bound in _BOUNDS:
        found.update(
            connection.execute(
                f"SELECT t.id, t.{bound} FROM tests t WHERE t.{bound} NOT BETWEEN ? AND ?{within}",
                (to_microseconds(accepted.earliest), to_microseconds(accepted.latest), *values),
            )
        )
    return found


def _of_repository(column: str, repository: RepositoryName | None) -> tuple[str, tuple[str, ...]]:
    if repository is None:
        return "", ()
    return f" AND {column} = (SELECT id FROM repositories WHERE key = ?)", (repository.key,)


def _conditions(selection: ExecutionSelection) -> tuple[str, list[Any]]:
    """Build the SQL conditions of the selection, such that SQLite uses the narrowest index."""
    columns = {
        "r.run_id": selection.run_id,
        "r.attempt": selection.attempt,
        "r.pipeline_name": selection.pipeline_name,
        "r.job_name": selection.job_name,
    }
    given: dict[str, Any] = {
        f"{column} = ?": value for column, value in columns.items() if value is not None
    }
    repository = selection.repository
    if selection.test_name is not None and repository is not None:
        test_id = derive_test_id(repository, selection.test_name).bytes
        given["i.test = (SELECT id FROM tests WHERE test_id = ?)"] = test_id
    elif selection.test_name is not None:
        given["i.test_name = ?"] = selection.test_name
    if repository is not None:
        # The `+` keeps SQLite from using this column's index. With a run id that index is useful:
        # it leads to the index of runs, which begins with the repository.
        column = "p.key" if selection.run_id is not None else "+p.key"
        given[f"{column} = ?"] = repository.key
    conditions, values = list(given), list(given.values())
    if selection.outside is not None:
        conditions.append("(e.finished_at < ? OR e.finished_at > ?)")
        values += map(to_microseconds, (selection.outside.earliest, selection.outside.latest))
    return " AND ".join(conditions) or "true", values
