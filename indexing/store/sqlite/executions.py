"""Writes executions, and the rows of the tests, identities, branches and runs that they name."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from indexing.failures.fingerprint import identify_failure
from indexing.identifiers import derive_arrival_id, derive_identity_id, make_test_id_deriver
from indexing.models.executions import Conclusion, Execution, Run
from indexing.names import RepositoryName
from indexing.store.interface import ExecutionCount
from indexing.store.sqlite.columns import (
    CONCLUSION_NUMBERS,
    NO_PULL_NUMBER,
    NO_URL,
    text_of_pull,
)
from indexing.store.sqlite.job_runs import SAME_JOB, JobRun, add_results, ensure_job_run
from indexing.store.sqlite.listed_runs import add_to_run
from indexing.store.sqlite.repositories import require_repository_id
from indexing.store.sqlite.search.name_index import add_names
from indexing.store.sqlite.stale_tests import mark_for_merge
from indexing.timestamps import to_microseconds

# The key begins with the job, because the id of a result of a report depends on it. A span may be
# sent again for another job, and still has the same end.
_FIND_EXECUTION: Final = (
    "SELECT 1 FROM executions WHERE identity = ? AND finished_at = ? AND execution_id = ?"
)
_ADD_EXECUTION: Final = (
    "INSERT INTO executions (execution_id, identity, finished_at, job_run, run, branch,"
    " conclusion, needed_retries, duration, framework, framework_version, language, filepath,"
    " function_name, failure_type, failure_message, failure_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (job_run, identity, execution_id) DO NOTHING"
)


def write_results(
    connection: sqlite3.Connection,
    repository: RepositoryName,
    results: Mapping[Run, Sequence[Execution]],
) -> ExecutionCount:
    repository_id = require_repository_id(connection, repository)
    rows = _Rows(connection, repository, repository_id)
    written: dict[JobRun, Counter[Conclusion]] = {}
    touched: set[int] = set()
    unmerged: list[tuple[int, int]] = []
    for run, executions in results.items():
        job = JobRun(repository_id, run.run_id, run.attempt, run.pipeline_name, run.job_name)
        gained = written.setdefault(job, Counter())
        job_run = ensure_job_run(connection, job)
        branch = _ensure_branch(connection, repository_id, run.branch)
        run_row = _ensure_run(connection, job, branch, run, derive_arrival_id(repository, run))
        stored: list[Execution] = []
        for execution in executions:
            test, identity = rows.ensure_identity(run, execution.test_name)
            touched.add(test)
            row = rows.add_execution(identity, job_run, run_row, branch, execution)
            if row is not None:
                gained[execution.conclusion] += 1
                unmerged.append((test, row))
                stored.append(execution)
        add_to_run(connection, run_row, stored)
    connection.executemany(
        "INSERT INTO unmerged (test, execution) VALUES (?, ?) ON CONFLICT DO NOTHING", unmerged
    )
    mark_for_merge(connection, repository_id, touched)
    # One update for each job, even if its results name several commits.
    for job, gained in written.items():
        add_results(connection, job, gained[Conclusion.PASSED], gained[Conclusion.FAILED])
    rows.add_names()
    new = sum(gained.total() for gained in written.values())
    return ExecutionCount(new, sum(map(len, results.values())) - new)


def _ensure_branch(connection: sqlite3.Connection, repository_id: int, name: str) -> int:
    connection.execute(
        "INSERT INTO branches (repository_id, name) VALUES (?, ?) ON CONFLICT DO NOTHING",
        (repository_id, name),
    )
    row = connection.execute(
        "SELECT id FROM branches WHERE repository_id = ? AND name = ?", (repository_id, name)
    ).fetchone()
    found: int = row[0]
    return found


def _ensure_run(
    connection: sqlite3.Connection, job: JobRun, branch: int, run: Run, arrival_id: bytes
) -> int:
    columns = (
        *job,
        branch,
        run.commit,
        NO_PULL_NUMBER if run.pull_number is None else run.pull_number,
        text_of_pull(run.pull),
        run.job_url or NO_URL,
    )
    connection.execute(
        "INSERT INTO runs (repository_id, run_id, attempt, pipeline_name, job_name, branch,"
        " commit_sha, pull_number, pull, job_url, arrival_id, infrastructure_failure)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        f" coalesce((SELECT infrastructure_failure FROM job_runs WHERE {SAME_JOB}), 0))"
        " ON CONFLICT DO NOTHING",
        (*columns, arrival_id, *job),
    )
    row = connection.execute(
        "SELECT id FROM runs WHERE repository_id = ? AND run_id = ? AND attempt = ?"
        " AND pipeline_name = ? AND job_name = ? AND branch = ? AND commit_sha = ?"
        " AND pull_number = ? AND pull = ? AND job_url = ?",
        columns,
    ).fetchone()
    found: int = row[0]
    return found


class _Rows:
    """Finds or adds the rows of the tests, identities and executions of one repository."""

    def __init__(
        self, connection: sqlite3.Connection, repository: RepositoryName, repository_id: int
    ) -> None:
        self._connection = connection
        self._repository = repository
        self._repository_id = repository_id
        self._derive_test_id = make_test_id_deriver(repository)
        self._added: list[tuple[int, str]] = []

    def ensure_identity(self, run: Run, name: str) -> tuple[int, int]:
        """Return the row ids of the test and of its identity in the run's pipeline and job."""
        identity_id = derive_identity_id(self._repository, name, run.pipeline_name, run.job_name)
        row = self._connection.execute(
            "SELECT test, id FROM identities WHERE identity_id = ?", (identity_id,)
        ).fetchone()
        if row is not None:
            found: tuple[int, int] = row
            return found
        test = self._ensure_test(name)
        identity = self._insert(
            "INSERT INTO identities"
            " (identity_id, repository_id, test, test_name, pipeline_name, job_name)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (identity_id, self._repository_id, test, name, run.pipeline_name, run.job_name),
        )
        return test, identity

    def add_execution(
        self, identity: int, job_run: int, run: int, branch: int, execution: Execution
    ) -> int | None:
        """Add an execution and return its row id; `None` if it is stored already."""
        finished_at = to_microseconds(execution.finished_at)
        same = self._connection.execute(_FIND_EXECUTION, (identity, finished_at, execution.id))
        if same.fetchone() is not None:
            return None
        failure_id = None
        if execution.conclusion is Conclusion.FAILED:
            failure_id = identify_failure(self._derive_test_id(execution.test_name), execution)
        added = self._connection.execute(
            _ADD_EXECUTION,
            (
                execution.id,
                identity,
                finished_at,
                job_run,
                run,
                branch,
                CONCLUSION_NUMBERS[execution.conclusion],
                execution.needed_retries,
                execution.duration,
                execution.framework,
                execution.framework_version,
                execution.language,
                execution.filepath,
                execution.function_name,
                execution.failure_type,
                execution.failure_message,
                None if failure_id is None else failure_id.bytes,
            ),
        )
        if not added.rowcount:
            return None
        if execution.failure_trace is not None:
            self._connection.execute(
                "INSERT INTO failure_traces (execution, trace) VALUES (?, ?)",
                (added.lastrowid, execution.failure_trace),
            )
        return added.lastrowid

    def add_names(self) -> None:
        """Write the names of all added tests to the n-gram indexes; call it last.

        The full-text indexes collect names in memory until the next statement for which SQLite
        needs a savepoint, and then write a segment. Names that are added between such statements
        would each be a segment of their own, which took longer than all else.
        """
        add_names(self._connection, self._repository_id, self._added)

    def _ensure_test(self, name: str) -> int:
        test_id = self._derive_test_id(name).bytes
        row = self._connection.execute(
            "SELECT id FROM tests WHERE test_id = ?", (test_id,)
        ).fetchone()
        if row is not None:
            found: int = row[0]
            return found
        test = self._insert(
            "INSERT INTO tests (test_id, repository_id, test_name) VALUES (?, ?, ?)",
            (test_id, self._repository_id, name),
        )
        self._added.append((test, name))
        return test

    def _insert(self, statement: str, values: tuple[Any, ...]) -> int:
        # `RETURNING id` takes as long again as the rest of the statement.
        row = self._connection.execute(statement, values).lastrowid
        if row is None:
            raise AssertionError(statement)
        return row
