"""Version 8: roll-ups, so that the cost of a load does not grow with the history of its tests.

Every test becomes stale, and the next refresh computes the roll-ups from executions. Also an index
for the order in which the events of a repository arrived.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_TABLES: Final = """
-- All that the rules and the next merge need of an identity's executions on the default branch.
-- branch is the one that the state is of; it is null if nothing ran on the default branch yet.
CREATE TABLE rollups (
    identity INTEGER PRIMARY KEY REFERENCES identities (id),
    branch INTEGER REFERENCES branches (id),
    state BLOB NOT NULL
) STRICT;

-- One UTC day of an identity, counted from 1970; these rows outlive executions. Durations and times
-- are in microseconds.
CREATE TABLE daily_rollups (
    identity INTEGER NOT NULL REFERENCES identities (id),
    day INTEGER NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    passed_evidence INTEGER NOT NULL,
    failed_evidence INTEGER NOT NULL,
    passed_verdicts INTEGER NOT NULL,
    failed_verdicts INTEGER NOT NULL,
    flaky_verdicts INTEGER NOT NULL,
    stood_alone INTEGER NOT NULL,
    durations INTEGER NOT NULL,
    total_duration INTEGER NOT NULL,
    longest_duration INTEGER NOT NULL,
    first_evidence INTEGER,
    last_evidence INTEGER,
    last_at INTEGER NOT NULL,
    health TEXT NOT NULL,
    PRIMARY KEY (identity, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX daily_rollups_by_day ON daily_rollups (day);

-- Executions that are not in the roll-ups and quarantines of their test yet. A row is added with
-- the execution and deleted with the merge, so that no kill can lose one.
CREATE TABLE unmerged (
    test INTEGER NOT NULL REFERENCES tests (id),
    execution INTEGER NOT NULL,
    PRIMARY KEY (test, execution)
) STRICT, WITHOUT ROWID;

-- 1 for a test whose roll-ups must be computed from executions; 0 if a merge is enough.
ALTER TABLE stale_tests ADD COLUMN recompute INTEGER NOT NULL DEFAULT 1;

-- What counts for is_recovered, without the executions; null until it is computed.
ALTER TABLE quarantines ADD COLUMN recovery BLOB;

DROP INDEX executions_by_run;
CREATE INDEX executions_by_run ON executions (run, identity);
CREATE INDEX runs_by_commit ON runs (repository_id, commit_sha, pipeline_name, job_name);

-- With the row id that every index ends in: the order of arrival.
CREATE INDEX events_by_arrival ON events (repository_id);

INSERT INTO stale_tests (test) SELECT id FROM tests WHERE true
    ON CONFLICT DO UPDATE SET recompute = 1;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
