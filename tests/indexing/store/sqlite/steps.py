"""Counts steps of SQLite's virtual machine: a measure of cost that needs no clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable


def count_steps(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 0)
    return steps
