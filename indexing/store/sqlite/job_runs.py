"""Rows of job_runs: how many tests passed and failed in each job of a run, and what that means.

Every change of the executions of a job changes its counts in the same transaction. So judging a
job costs the same however many executions and commits it has.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from indexing.health.rules import is_infrastructure_failure

# The key of job_runs, and the beginning of that of runs.
SAME_JOB: Final = (
    "repository_id = ? AND run_id = ? AND attempt = ? AND pipeline_name = ? AND job_name = ?"
)


class JobRun(NamedTuple):
    """One attempt of one job of a run, which fails as a whole or does not; in key order."""

    repository_id: int
    run_id: str
    attempt: int
    pipeline_name: str
    job_name: str


def add_results(connection: sqlite3.Connection, job: JobRun, passed: int, failed: int) -> None:
    """Count so many more results, or fewer, and judge the job anew.

    Where it turns into a failure of the infrastructure, or out of one, its tests become stale.
    """
    passed, failed, before = connection.execute(
        "INSERT INTO job_runs (repository_id, run_id, attempt, pipeline_name, job_name,"
        " passed, failed) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
        " passed = passed + excluded.passed, failed = failed + excluded.failed"
        " RETURNING passed, failed, infrastructure_failure",
        (*job, passed, failed),
    ).fetchone()
    now = is_infrastructure_failure(passed, failed)
    if now == bool(before):
        return
    for table in ("job_runs", "runs"):
        connection.execute(
            f"UPDATE {table} SET infrastructure_failure = ? WHERE {SAME_JOB}", (now, *job)
        )
    connection.execute(
        "INSERT INTO stale_tests (test) SELECT DISTINCT i.test FROM executions e"
        " JOIN identities i ON i.id = e.identity"
        f" WHERE e.run IN (SELECT id FROM runs WHERE {SAME_JOB}) ON CONFLICT DO NOTHING",
        job,
    )


def drop_results(connection: sqlite3.Connection, job: JobRun, passed: int, failed: int) -> None:
    """Count so many results less, and leave the job as it was judged."""
    connection.execute(
        f"UPDATE job_runs SET passed = passed - ?, failed = failed - ? WHERE {SAME_JOB}",
        (passed, failed, *job),
    )


def drop_without_runs(connection: sqlite3.Connection, job: JobRun) -> None:
    """Drop the row of a job that has no run left."""
    connection.execute(
        f"DELETE FROM job_runs WHERE {SAME_JOB}"
        f" AND NOT EXISTS (SELECT 1 FROM runs WHERE {SAME_JOB})",
        (*job, *job),
    )
