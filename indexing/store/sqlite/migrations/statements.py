"""Steps that migrations share, within the open transaction."""

from __future__ import annotations

import sqlite3

from indexing.errors import StoreError


def execute_all(connection: sqlite3.Connection, script: str) -> None:
    """Execute the statements one by one: `executescript` would commit the transaction first."""
    pending = ""
    for line in script.splitlines():
        if line.lstrip().startswith("--"):
            continue
        pending += line + "\n"
        if sqlite3.complete_statement(pending) and pending.strip():
            connection.execute(pending)
            pending = ""


def check_foreign_keys(connection: sqlite3.Connection) -> None:
    """Raise `StoreError` if a row refers to a missing one."""
    row = connection.execute("PRAGMA foreign_key_check").fetchone()
    if row is not None:
        raise StoreError(f"a row of {row[0]} refers to a row of {row[2]} that is not there")
