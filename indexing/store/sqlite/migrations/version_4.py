"""Version 4: the trace and the id of each failure, and the URL of each job.

Earlier versions did not store them, so existing rows have none.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import check_foreign_keys, execute_all

_COLUMNS: Final = (
    "id, repository_id, run_id, attempt, pipeline_name, job_name, branch, commit_sha, pull_number,"
    " pull, infrastructure_failure"
)

# The URL is part of the unique key of runs, so results keep the URL that they came with. A unique
# constraint cannot be extended, so the table is rebuilt.
_TABLES: Final = f"""
CREATE TABLE runs_with_urls (
    id INTEGER PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    pipeline_name TEXT NOT NULL,
    job_name TEXT NOT NULL,
    branch INTEGER NOT NULL REFERENCES branches (id),
    commit_sha TEXT NOT NULL,
    pull_number INTEGER NOT NULL,
    pull TEXT NOT NULL,
    infrastructure_failure INTEGER NOT NULL DEFAULT 0,
    job_url TEXT NOT NULL DEFAULT '',
    UNIQUE (repository_id, run_id, attempt, pipeline_name, job_name,
            branch, commit_sha, pull_number, pull, job_url)
) STRICT;
INSERT INTO runs_with_urls ({_COLUMNS}) SELECT {_COLUMNS} FROM runs;
DROP TABLE runs;
ALTER TABLE runs_with_urls RENAME TO runs;

ALTER TABLE executions ADD COLUMN failure_id BLOB;
CREATE INDEX executions_by_failure ON executions (identity, failure_id, branch, finished_at)
    WHERE failure_id IS NOT NULL;
CREATE INDEX executions_of_identity ON executions (identity, finished_at, execution_id);

-- Beside the executions, which scans read.
CREATE TABLE failure_traces (
    execution INTEGER PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    trace BLOB NOT NULL
) STRICT;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
    check_foreign_keys(connection)
