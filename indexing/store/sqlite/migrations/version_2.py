"""Version 2: the file states which application it belongs to.

SQLite has a field for an application id in the header of a file. With it, `file` identifies the
store, and a database of another application in its place is refused, not overwritten.
"""

from __future__ import annotations

import sqlite3
from typing import Final

# "mrgw". https://www.sqlite.org/pragma.html#pragma_application_id
APPLICATION_ID: Final = 0x6D726777


def migrate(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
