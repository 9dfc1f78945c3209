"""Version 17: a load finds the stale tests that it has to judge without reading all others.

A rebuild or a prune marks the tests of every repository. Meanwhile, each load read all of these to
find those of its own repository, and judged them.
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
    -- 0: a merge of the new executions is enough. 1: compute the test from all executions.
    -- 2: the same, but loads leave it to the rebuild or prune that marked it.
    recompute INTEGER NOT NULL DEFAULT 1
) STRICT;
INSERT INTO stale_tests (test, repository_id, recompute)
    SELECT t.id, t.repository_id, s.recompute
    FROM former_stale_tests s JOIN tests t ON t.id = s.test;
DROP TABLE former_stale_tests;
CREATE INDEX stale_tests_by_repository ON stale_tests (repository_id, recompute, test);
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _STATEMENTS)
    check_foreign_keys(connection)
