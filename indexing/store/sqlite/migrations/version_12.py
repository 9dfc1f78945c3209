"""Version 12: trends that outlive executions: counts of runs by day, and changes of health.

Every test becomes stale, without `recompute`: the next refresh computes its history from its daily
roll-ups.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_TABLES: Final = """
-- The executions of a run on one UTC day, counted from 1970. Durations are in microseconds.
CREATE TABLE run_days (
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    branch INTEGER NOT NULL REFERENCES branches (id),
    day INTEGER NOT NULL,
    run INTEGER NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    durations INTEGER NOT NULL,
    total_duration REAL NOT NULL,
    PRIMARY KEY (repository_id, branch, day, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_days_by_run ON run_days (run);

-- The sums of days that retention has reached, of the branch that was the default one then.
CREATE TABLE past_days (
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    branch INTEGER NOT NULL REFERENCES branches (id),
    day INTEGER NOT NULL,
    pipeline_name TEXT NOT NULL,
    job_name TEXT NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    durations INTEGER NOT NULL,
    total_duration REAL NOT NULL,
    PRIMARY KEY (repository_id, branch, day, pipeline_name, job_name)
) STRICT;
CREATE INDEX past_days_by_day ON past_days (day);

-- What indexing.health.history keeps of a test; null until it is computed.
ALTER TABLE tests ADD COLUMN history BLOB;

-- Its changes: of an identity, or of the test as a whole where identity is 0. previous is null for
-- the first one. identity_id breaks ties in the order of lists.
CREATE TABLE health_changes (
    test INTEGER NOT NULL REFERENCES tests (id),
    identity INTEGER NOT NULL,
    day INTEGER NOT NULL,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    at INTEGER NOT NULL,
    previous TEXT,
    health TEXT NOT NULL,
    identity_id BLOB,
    PRIMARY KEY (test, identity, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX health_of_tests ON health_changes (repository_id, day, previous, health)
    WHERE identity = 0;
CREATE INDEX health_transitions ON health_changes (repository_id, at, identity_id)
    WHERE identity > 0 AND previous IS NOT NULL;

-- Its days with flaky verdicts.
CREATE TABLE flaky_days (
    test INTEGER NOT NULL REFERENCES tests (id),
    identity INTEGER NOT NULL REFERENCES identities (id),
    day INTEGER NOT NULL,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    verdicts INTEGER NOT NULL,
    PRIMARY KEY (test, identity, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX flaky_days_by_day ON flaky_days (repository_id, day, identity, verdicts);

INSERT INTO stale_tests (test, recompute) SELECT id, 0 FROM tests WHERE true
    ON CONFLICT DO NOTHING;

INSERT INTO run_days
    SELECT r.repository_id, r.branch,
        (e.finished_at - ((e.finished_at % 86400000000 + 86400000000) % 86400000000))
            / 86400000000 AS day,
        r.id, count(*) FILTER (WHERE e.conclusion = 0), count(*) FILTER (WHERE e.conclusion = 1),
        count(*) FILTER (WHERE e.conclusion = 2),
        count(e.duration) FILTER (WHERE e.duration BETWEEN 0 AND 3162240000),
        total(round(e.duration * 1000000)) FILTER (WHERE e.duration BETWEEN 0 AND 3162240000)
    FROM executions e JOIN runs r ON r.id = e.run GROUP BY r.id, day;

INSERT INTO past_days
    SELECT i.repository_id, b.id, d.day, i.pipeline_name, i.job_name, sum(d.passed), sum(d.failed),
        sum(d.skipped), sum(d.durations), total(d.total_duration)
    FROM daily_rollups d JOIN identities i ON i.id = d.identity
    JOIN repositories r ON r.id = i.repository_id
    JOIN branches b ON b.repository_id = r.id AND b.name = r.default_branch
    WHERE d.day <= (SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM meta
                    WHERE name = 'rollups_final_until')
    GROUP BY i.repository_id, b.id, d.day, i.pipeline_name, i.job_name;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
