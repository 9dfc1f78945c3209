"""Version 3: how many tests passed and failed in each job of a run, updated as results arrive.

These counts decide whether a job failed as a whole. Without them, every request with results of a
run counted the whole run again.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_TABLES: Final = """
-- infrastructure_failure is what the rows in runs of this job say.
CREATE TABLE job_runs (
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    pipeline_name TEXT NOT NULL,
    job_name TEXT NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    infrastructure_failure INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (repository_id, run_id, attempt, pipeline_name, job_name)
) STRICT, WITHOUT ROWID;
"""

_COUNTS: Final = """
INSERT INTO job_runs
    SELECT r.repository_id, r.run_id, r.attempt, r.pipeline_name, r.job_name,
           count(*) FILTER (WHERE e.conclusion = 0), count(*) FILTER (WHERE e.conclusion = 1),
           max(r.infrastructure_failure)
    FROM runs r LEFT JOIN executions e ON e.run = r.id
    GROUP BY r.repository_id, r.run_id, r.attempt, r.pipeline_name, r.job_name;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
    execute_all(connection, _COUNTS)
