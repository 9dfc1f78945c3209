"""Runs an SQL script within the open transaction."""

from __future__ import annotations

import sqlite3


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
