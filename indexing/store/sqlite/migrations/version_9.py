"""Version 9: the number of results of each run, and a wider index of failures.

The index contains the id of the execution too, which breaks ties.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

# last_finished_at is when the newest execution of the run finished. arrival_id only breaks ties in
# the order of the list, so the stored runs may get any unique value.
_TABLES: Final = """
ALTER TABLE runs ADD COLUMN arrival_id BLOB;
ALTER TABLE runs ADD COLUMN last_finished_at INTEGER;
ALTER TABLE runs ADD COLUMN passed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET arrival_id = CAST(printf('%016x', runs.id) AS BLOB),
    last_finished_at = counted.newest, passed = counted.passed, failed = counted.failed,
    skipped = counted.skipped
    FROM (SELECT run, max(finished_at) newest, count(*) FILTER (WHERE conclusion = 0) passed,
                 count(*) FILTER (WHERE conclusion = 1) failed,
                 count(*) FILTER (WHERE conclusion = 2) skipped
          FROM executions GROUP BY run) counted
    WHERE counted.run = runs.id;
CREATE INDEX arrivals_by_time ON runs (repository_id, last_finished_at, arrival_id);
CREATE INDEX arrivals_by_commit ON runs (repository_id, commit_sha, last_finished_at, arrival_id);
CREATE INDEX arrivals_by_branch ON runs (repository_id, branch, last_finished_at, arrival_id);
CREATE INDEX arrivals_by_pull_request
    ON runs (repository_id, pull_number, last_finished_at, arrival_id);

DROP INDEX executions_by_failure;
CREATE INDEX executions_by_failure
    ON executions (identity, failure_id, branch, finished_at, execution_id)
    WHERE failure_id IS NOT NULL;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
