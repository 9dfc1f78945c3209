"""Rows of job_runs: how many tests passed and failed in each job of a run.

Every change of a job's executions updates its counts in the same transaction. So the check for an
infrastructure failure costs the same however many executions and commits the job has.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from indexing.health.rules import is_infrastructure_failure
from indexing.store.sqlite.stale_tests import mark_found

# The condition on the key of job_runs, which is also the first part of the key of runs.
SAME_JOB: Final = (
    "repository_id = ? AND run_id = ? AND attempt = ? AND pipeline_name = ? AND job_name = ?"
)


class JobRun(NamedTuple):
    """One attempt of one job of a run, which can fail as a whole; the fields are in key order."""

    repository_id: int
    run_id: str
    attempt: int
    pipeline_name: str
    job_name: str


def ensure_job_run(connection: sqlite3.Connection, job: JobRun) -> int:
    """Return the row id of a job, which may not have any results yet."""
    connection.execute(
        "INSERT INTO job_runs (repository_id, run_id, attempt, pipeline_name, job_name,"
        " passed, failed) VALUES (?, ?, ?, ?, ?, 0, 0) ON CONFLICT DO NOTHING",
        job,
    )
    row = connection.execute(f"SELECT id FROM job_runs WHERE {SAME_JOB}", job).fetchone()
    found: int = row[0]
    return found


def add_results(connection: sqlite3.Connection, job: JobRun, passed: int, failed: int) -> None:
    """Add to the counts of a job and check again whether it is an infrastructure failure.

    Negative numbers subtract. If the result of the check changes, the job's tests become stale.
    """
    row, passed, failed, before = connection.execute(
        "UPDATE job_runs SET passed = passed + ?, failed = failed + ?"
        f" WHERE {SAME_JOB} RETURNING id, passed, failed, infrastructure_failure",
        (passed, failed, *job),
    ).fetchone()
    now = is_infrastructure_failure(passed, failed)
    if now == bool(before):
        return
    for table in ("job_runs", "runs"):
        connection.execute(
            f"UPDATE {table} SET infrastructure_failure = ? WHERE {SAME_JOB}", (now, *job)
        )
    mark_found(
        connection,
        "SELECT i.test FROM executions e JOIN identities i ON i.id = e.identity"
        " WHERE e.job_run = ?",
        (row,),
    )


def drop_results(connection: sqlite3.Connection, job: JobRun, passed: int, failed: int) -> None:
    """Subtract from the counts without checking again for an infrastructure failure."""
    connection.execute(
        f"UPDATE job_runs SET passed = passed - ?, failed = failed - ? WHERE {SAME_JOB}",
        (passed, failed, *job),
    )


def drop_without_runs(connection: sqlite3.Connection, job: JobRun) -> None:
    """Delete the row of a job if it has no runs left."""
    connection.execute(
        f"DELETE FROM job_runs WHERE {SAME_JOB}"
        f" AND NOT EXISTS (SELECT 1 FROM runs WHERE {SAME_JOB})",
        (*job, *job),
    )
