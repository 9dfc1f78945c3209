"""Version 18: a new execution changes one page of the file instead of three.

A test with a long history has pages of its own in an index by test, so each of its executions
changed one in each such index, and one in the index of ids, which are random. One index by test is
enough: the other one was read by test and branch, and the branch can be checked in the index by
time. An id is looked up in the job that it belongs to, whose executions lie beside each other.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import check_foreign_keys, execute_all

_JOB: Final = "repository_id, run_id, attempt, pipeline_name, job_name"
_OF_JOB: Final = ", ".join(f"j.{column}" for column in _JOB.split(", "))
_OF_RUN: Final = ", ".join(f"r.{column}" for column in _JOB.split(", "))
_COLUMNS: Final = (
    "id, execution_id, identity, run, branch, conclusion, needed_retries, finished_at, duration,"
    " framework, framework_version, language, filepath, function_name, failure_type,"
    " failure_message, failure_id"
)

_STATEMENTS: Final = f"""
ALTER TABLE job_runs RENAME TO former_job_runs;
CREATE TABLE job_runs (
    id INTEGER PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    pipeline_name TEXT NOT NULL,
    job_name TEXT NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    infrastructure_failure INTEGER NOT NULL DEFAULT 0,
    UNIQUE ({_JOB})
) STRICT;
INSERT INTO job_runs ({_JOB}, passed, failed, infrastructure_failure)
    SELECT {_JOB}, passed, failed, infrastructure_failure FROM former_job_runs;
DROP TABLE former_job_runs;
-- No release leaves a run without the row of its job, but a file without one is to be upgraded too.
INSERT INTO job_runs ({_JOB}, passed, failed, infrastructure_failure)
    SELECT {_JOB}, count(*) FILTER (WHERE e.conclusion = 0),
           count(*) FILTER (WHERE e.conclusion = 1), max(r.infrastructure_failure)
    FROM runs r LEFT JOIN executions e ON e.run = r.id
    WHERE NOT EXISTS (SELECT 1 FROM job_runs j WHERE ({_OF_JOB}) = ({_OF_RUN}))
    GROUP BY {_JOB};

-- job_run is the row of job_runs with the key of run.
CREATE TABLE executions_of_jobs (
    id INTEGER PRIMARY KEY,
    execution_id BLOB NOT NULL,
    identity INTEGER NOT NULL REFERENCES identities (id),
    job_run INTEGER NOT NULL REFERENCES job_runs (id),
    run INTEGER NOT NULL REFERENCES runs (id),
    branch INTEGER NOT NULL REFERENCES branches (id),
    conclusion INTEGER NOT NULL,
    needed_retries INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    duration REAL,
    framework TEXT,
    framework_version TEXT,
    language TEXT,
    filepath TEXT,
    function_name TEXT,
    failure_type TEXT,
    failure_message TEXT,
    failure_id BLOB
) STRICT;
INSERT INTO executions_of_jobs ({_COLUMNS}, job_run)
    SELECT {_COLUMNS}, (SELECT j.id FROM runs r JOIN job_runs j USING ({_JOB}) WHERE r.id = run)
    FROM executions ORDER BY id;
DROP TABLE executions;
ALTER TABLE executions_of_jobs RENAME TO executions;

CREATE UNIQUE INDEX executions_by_id ON executions (job_run, identity, execution_id);
CREATE INDEX executions_by_run ON executions (run, identity);
CREATE INDEX executions_by_time ON executions (finished_at);
-- The first three columns are the order of a page of executions. The other two are filters that are
-- checked before a row is read.
CREATE INDEX executions_of_identity
    ON executions (identity, finished_at, execution_id, branch, conclusion);
CREATE INDEX executions_by_failure
    ON executions (identity, failure_id, branch, finished_at, execution_id)
    WHERE failure_id IS NOT NULL;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _STATEMENTS)
    check_foreign_keys(connection)
