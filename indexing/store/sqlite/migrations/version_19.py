"""Version 19: a search for a prefix reads an index alone.

The index of names gets what such a search reads of a row, in place of a look-up of each row. An
index of some rows has to contain the column of its condition to be read alone.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_STATEMENTS: Final = """
DROP INDEX identities_by_test_name;
CREATE INDEX identities_by_test_name ON identities
    (repository_id, test_name, pipeline_name, job_name, test, health_status, executions_count)
    WHERE health_status IS NOT NULL;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _STATEMENTS)
