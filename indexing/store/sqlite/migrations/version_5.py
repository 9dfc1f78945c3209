"""Version 5: the number of days a test must be flaky or broken before automatic quarantine."""

from __future__ import annotations

import sqlite3


def migrate(connection: sqlite3.Connection) -> None:
    connection.execute(
        "ALTER TABLE repositories ADD COLUMN quarantine_after INTEGER NOT NULL DEFAULT 0"
    )
