"""Version 6: every change of a quarantine, with who made it.

Earlier changes are unknown, except that each quarantine was added and some were removed.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_TABLES: Final = """
CREATE TABLE quarantine_changes (
    id BLOB PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    at INTEGER NOT NULL,
    action TEXT NOT NULL,
    quarantine_id BLOB NOT NULL,
    test_name TEXT NOT NULL,
    branch TEXT,
    reason TEXT NOT NULL,
    source TEXT NOT NULL,
    actor_kind TEXT,
    actor_id TEXT,
    actor_name TEXT
) STRICT;
CREATE INDEX quarantine_changes_by_time ON quarantine_changes (repository_id, at, id);
CREATE INDEX quarantine_changes_by_age ON quarantine_changes (at);
CREATE INDEX quarantines_by_expiry ON quarantines (repository_id, expires_at, id)
    WHERE removed_at IS NULL AND expires_at IS NOT NULL;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
