"""Version 15: the flaky verdicts that last for several days, so that each counts on one day only.

Tests with a flaky verdict, or without a history, are computed again from their executions.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_STATEMENTS: Final = """
-- What indexing.health.lasting_verdicts keeps of a test; null if it has none.
ALTER TABLE tests ADD COLUMN lasting_verdicts BLOB;

INSERT INTO stale_tests (test) SELECT id FROM tests
    WHERE history IS NULL OR id IN (SELECT test FROM flaky_days)
    ON CONFLICT DO UPDATE SET recompute = 1;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _STATEMENTS)
