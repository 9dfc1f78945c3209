"""Version 1: the tables of the first release.

Times are microseconds since 1970. Row ids are private to the file; what the interface calls an id
has a column of its own.
"""

from __future__ import annotations

import secrets
import sqlite3
import uuid
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_TABLES: Final = """
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE repositories (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    default_branch TEXT NOT NULL,
    flaky_detection INTEGER NOT NULL,
    auto_quarantine INTEGER NOT NULL,
    ignore_broken_on_default_branch INTEGER NOT NULL
) STRICT;

CREATE TABLE application_keys (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    owner TEXT NOT NULL,
    repository TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

-- Each filter of the log has an index that goes on in the order of the log, so that a page is read
-- off one of them from its first row to its last, however deep it lies.
CREATE TABLE events (
    row_id INTEGER PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    received_at INTEGER NOT NULL,
    id INTEGER NOT NULL,
    type TEXT NOT NULL,
    pull_request INTEGER,
    base_ref TEXT,
    body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_time ON events (repository_id, received_at, id);
CREATE INDEX events_by_type ON events (repository_id, type, received_at, id);
CREATE INDEX events_by_pull_request ON events (repository_id, pull_request, received_at, id)
    WHERE pull_request IS NOT NULL;
CREATE INDEX events_by_base_ref ON events (repository_id, base_ref, received_at, id)
    WHERE base_ref IS NOT NULL;

CREATE TABLE branches (
    id INTEGER PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    name TEXT NOT NULL,
    UNIQUE (repository_id, name)
) STRICT;

-- pull_number and pull are part of what tells runs apart, so neither may be null there.
CREATE TABLE runs (
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
    UNIQUE (repository_id, run_id, attempt, pipeline_name, job_name,
            branch, commit_sha, pull_number, pull)
) STRICT;

CREATE TABLE tests (
    id INTEGER PRIMARY KEY,
    test_id BLOB NOT NULL UNIQUE,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    test_name TEXT NOT NULL,
    health_status TEXT NOT NULL DEFAULT 'unknown',
    last_conclusion TEXT NOT NULL DEFAULT 'unknown',
    failure_ratio REAL NOT NULL DEFAULT 0,
    flakiness_ratio REAL NOT NULL DEFAULT 0,
    success_ratio REAL NOT NULL DEFAULT 0,
    first_failure_at INTEGER,
    first_failure_commit TEXT,
    first_failure_pull TEXT,
    last_failure_at INTEGER,
    last_success_at INTEGER,
    framework TEXT,
    framework_version TEXT,
    language TEXT,
    filepath TEXT,
    function_name TEXT
) STRICT;

-- executions_count is null for what never ran on the default branch, which no search shows.
CREATE TABLE identities (
    id INTEGER PRIMARY KEY,
    identity_id BLOB NOT NULL UNIQUE,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    test INTEGER NOT NULL REFERENCES tests (id),
    test_name TEXT NOT NULL,
    pipeline_name TEXT NOT NULL,
    job_name TEXT NOT NULL,
    executions_count INTEGER
) STRICT;
CREATE INDEX identities_by_test ON identities (test);
CREATE INDEX identities_by_executions_count
    ON identities (repository_id, executions_count, test_name, pipeline_name, job_name)
    WHERE executions_count IS NOT NULL;
CREATE INDEX identities_by_test_name
    ON identities (repository_id, test_name, pipeline_name, job_name)
    WHERE executions_count IS NOT NULL;
CREATE INDEX identities_by_pipeline_name
    ON identities (repository_id, pipeline_name, test_name, job_name)
    WHERE executions_count IS NOT NULL;
CREATE INDEX identities_by_job_name
    ON identities (repository_id, job_name, test_name, pipeline_name)
    WHERE executions_count IS NOT NULL;

-- Which three code points follow each other in which names; see `search/plan.py`.
CREATE VIRTUAL TABLE test_trigrams USING fts5 (
    name, content = '', columnsize = 0, detail = none, tokenize = 'trigram case_sensitive 1'
);

CREATE TABLE executions (
    id INTEGER PRIMARY KEY,
    execution_id BLOB NOT NULL UNIQUE,
    identity INTEGER NOT NULL REFERENCES identities (id),
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
    failure_message TEXT
) STRICT;
CREATE INDEX executions_by_identity ON executions (identity, branch, conclusion, finished_at);
CREATE INDEX executions_by_run ON executions (run, conclusion);
CREATE INDEX executions_by_time ON executions (finished_at);

-- Tests whose executions changed since what is derived of them was worked out. A row is added with
-- the change and dropped with the result, so that no kill can lose one.
CREATE TABLE stale_tests (
    test INTEGER PRIMARY KEY REFERENCES tests (id)
) STRICT;

-- judged_until is the newest finish time that an automatic quarantine was decided by; null for
-- what people made and for decisions that are final. evidence_until, of an ended quarantine, is
-- how far the evidence reached that its end has answered.
CREATE TABLE quarantines (
    id BLOB PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    test_id BLOB NOT NULL,
    test_name TEXT NOT NULL,
    reason TEXT NOT NULL,
    branch TEXT,
    source TEXT NOT NULL,
    owner TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    removed_at INTEGER,
    is_recovered INTEGER NOT NULL DEFAULT 0,
    judged_until INTEGER,
    evidence_until INTEGER
) STRICT;
CREATE UNIQUE INDEX quarantines_by_scope ON quarantines (test_id, ifnull(branch, char(0)))
    WHERE removed_at IS NULL;
CREATE INDEX quarantines_by_time ON quarantines (repository_id, created_at, id)
    WHERE removed_at IS NULL;
CREATE INDEX quarantines_ended ON quarantines (test_id, branch)
    WHERE removed_at IS NOT NULL;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
    connection.executemany(
        "INSERT INTO meta (name, value) VALUES (?, ?)",
        [
            ("store_id", uuid.uuid4().hex.encode()),
            ("cursor_secret", secrets.token_bytes(32)),
        ],
    )
