"""Version 17: the stale tests of a repository are found without reading those of all others.

A rebuild or a prune marks the tests of every repository. Meanwhile, each load read all of them to
find its own.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import check_foreign_keys, execute_all

_STATEMENTS: Final = """
ALTER TABLE stale_tests RENAME TO former_stale_tests;
CREATE TABLE stale_tests (
    test INTEGER PRIMARY KEY REFERENCES tests (id),
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    -- 0 if a merge of the new executions is enough.
    recompute INTEGER NOT NULL DEFAULT 1
) STRICT;
INSERT INTO stale_tests (test, repository_id, recompute)
    SELECT t.id, t.repository_id, s.recompute
    FROM former_stale_tests s JOIN tests t ON t.id = s.test;
DROP TABLE former_stale_tests;
CREATE INDEX stale_tests_by_repository ON stale_tests (repository_id, test);
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _STATEMENTS)
    check_foreign_keys(connection)
