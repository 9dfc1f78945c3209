"""Version 16: the writer of events adds their counts up, instead of database triggers.

An insert with triggers takes twice as much time. Events are deleted rarely, so that stays to
triggers.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_STATEMENTS: Final = """
DROP TRIGGER events_added;
DROP TRIGGER events_of_pulls_added;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _STATEMENTS)
