"""Lists the runs that have stored results, each with the number of its results.

Every change of a run's executions updates its row in `runs` in the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.listed_runs import ListedRun, RunKey, RunQuery
from indexing.models.paging import Anchor, Page
from indexing.store.sqlite.clauses import any_of
from indexing.store.sqlite.columns import CONCLUSION_NUMBERS, NO_PULL_NUMBER, NO_URL
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.repositories import find_repository_id
from indexing.store.sqlite.run_days import add_days, count_days_again
from indexing.timestamps import from_microseconds, to_microseconds

_ORDER: Final = ("last_finished_at", "arrival_id")
_COLUMNS: Final = (
    "last_finished_at, arrival_id, run_id, attempt, pipeline_name, job_name,"
    " (SELECT name FROM branches b WHERE b.id = r.branch), commit_sha, pull_number, job_url,"
    " passed, failed, skipped, infrastructure_failure"
)
_COUNTS: Final = ", ".join(
    f"{conclusion.value} = (SELECT count(*) FROM executions WHERE run = runs.id"
    f" AND conclusion = {number})"
    for conclusion, number in CONCLUSION_NUMBERS.items()
)
# The index of each filter, the narrowest first. All of them have the order of the list.
_INDEXES: Final = {
    "commit_sha": "arrivals_by_commit",
    "pull_number": "arrivals_by_pull_request",
    "branch": "arrivals_by_branch",
}


def list_runs(
    connection: sqlite3.Connection, query: RunQuery, anchor: Anchor[RunKey], limit: int
) -> Page[ListedRun]:
    """Read one page from the index of one filter; rows that other filters drop cost time too."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return Page((), has_previous=False, has_next=False)
    given: dict[str, Sequence[Any]] = {
        "commit_sha": query.commits,
        "pull_number": query.pull_numbers,
        "branch": _find_branches(connection, repository_id, query.branches),
        "pipeline_name": query.pipelines,
        "job_name": query.jobs,
    }
    # An index has the right order only for a single value of its column.
    index = next((_INDEXES[c] for c in _INDEXES if len(given[c]) == 1), "arrivals_by_time")
    where, values = _equals(given)

    def fetch(rows: Slice) -> list[ListedRun]:
        found = connection.execute(
            f"SELECT {_COLUMNS} FROM runs r INDEXED BY {index} WHERE repository_id = ?"
            f" AND last_finished_at IS NOT NULL{where} AND {rows.condition} {rows.limited_order}",
            (repository_id, *values, *rows.parameters),
        )
        return [_listed_run_of(row) for row in found]

    return read_page(
        fetch,
        _ORDER,
        anchor=anchor,
        key_of=lambda key: (to_microseconds(key.finished_at), key.id),
        ascending=False,
        limit=limit,
    )


def add_to_run(connection: sqlite3.Connection, run: int, executions: Sequence[Execution]) -> None:
    """Add executions that were just stored to the counts of their run."""
    if not executions:
        return
    passed, failed, skipped = (
        sum(each.conclusion is conclusion for each in executions) for conclusion in Conclusion
    )
    newest = to_microseconds(max(each.finished_at for each in executions))
    connection.execute(
        "UPDATE runs SET passed = passed + ?, failed = failed + ?, skipped = skipped + ?,"
        " last_finished_at = max(coalesce(last_finished_at, ?4), ?4) WHERE id = ?5",
        (passed, failed, skipped, newest, run),
    )
    add_days(connection, run, executions)


def count_again(connection: sqlite3.Connection, runs: Sequence[int]) -> None:
    """Recompute the counts of these runs from their remaining executions."""
    count_days_again(connection, runs)
    connection.executemany(
        f"UPDATE runs SET {_COUNTS}, last_finished_at = (SELECT max(finished_at) FROM executions"
        " WHERE run = runs.id) WHERE id = ?",
        [(run,) for run in runs],
    )


def subtract_from_run(
    connection: sqlite3.Connection, run: int, counts: tuple[int, int, int], newest: int
) -> None:
    """Subtract deleted executions from the counts of their run, unless it is gone.

    `counts` are those that passed, failed and were skipped; `newest` is when the last of them
    finished.
    """
    connection.execute(
        "UPDATE runs SET passed = passed - ?, failed = failed - ?, skipped = skipped - ?,"
        # Retention deletes the oldest first, so one of the first that are left is no older.
        " last_finished_at = iif(EXISTS (SELECT 1 FROM executions WHERE run = runs.id"
        " AND finished_at >= ?4), last_finished_at,"
        " (SELECT max(finished_at) FROM executions WHERE run = runs.id)) WHERE id = ?5",
        (*counts, newest, run),
    )


def _find_branches(
    connection: sqlite3.Connection, repository_id: int, names: Sequence[str]
) -> list[int]:
    if not names:
        return []
    text, values = any_of({"name": names})
    rows = connection.execute(
        f"SELECT id FROM branches WHERE repository_id = ?{text}", (repository_id, *values)
    )
    # No row has the id -1. An empty list would mean that there is no filter.
    return [row[0] for row in rows] or [-1]


def _equals(given: dict[str, Sequence[Any]]) -> tuple[str, list[Any]]:
    """Build the condition; a single value is compared with `=`, which keeps the index order."""
    single = {column: values for column, values in given.items() if len(values) == 1}
    text, several = any_of({c: v for c, v in given.items() if c not in single})
    equal = "".join(f" AND {column} = ?" for column in single)
    return equal + text, [*(values[0] for values in single.values()), *several]


def _listed_run_of(row: tuple[Any, ...]) -> ListedRun:
    finished_at, arrival_id, run_id, attempt, pipeline, job, branch, commit, *rest = row
    number, url, passed, failed, skipped, failure = rest
    return ListedRun(
        key=RunKey(from_microseconds(finished_at), arrival_id),
        run=Run(
            run_id,
            attempt,
            pipeline,
            job,
            branch,
            commit,
            pull_number=None if number == NO_PULL_NUMBER else number,
            job_url=None if url == NO_URL else url,
        ),
        passed=passed,
        failed=failed,
        skipped=skipped,
        is_infrastructure_failure=bool(failure),
    )
