"""Version 18: the executions of a test are in one index by time instead of two.

Each execution of a test with a long history changes a page of its own in each of these indexes. The
other one was read by test and branch only, and the branch can be checked in the index by time.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

# The first three columns are the order of a page of executions. The other two are filters that are
# checked before a row is read.
_STATEMENTS: Final = """
DROP INDEX executions_by_identity;
DROP INDEX executions_of_identity;
CREATE INDEX executions_of_identity
    ON executions (identity, finished_at, execution_id, branch, conclusion);
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _STATEMENTS)
