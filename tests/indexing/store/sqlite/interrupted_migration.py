"""Migrates copies of a store, each in a process that is killed at another point.

`python interrupted_migration.py FILE COUNT` prints how many points there are, and leaves `FILE.0`
to `FILE.<COUNT - 1>`: copies of FILE whose migration was killed at COUNT points from the first to
the last, which is the commit. A point is the start of a statement, or a row that a statement
processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys

from indexing.store.sqlite.migrations import MIGRATIONS
from indexing.store.sqlite.migrations.statements import check_foreign_keys
from indexing.store.sqlite.schema import ensure_schema


def widen_runs(connection: sqlite3.Connection) -> None:
    """Add a column, and fill it row by row."""
    connection.execute("ALTER TABLE runs ADD COLUMN results INTEGER NOT NULL DEFAULT 0")
    connection.execute(
        "UPDATE runs SET results = point()"
        " + (SELECT count(*) FROM executions WHERE executions.run = runs.id)"
    )


def rebuild_events(connection: sqlite3.Connection) -> None:
    """Create a table again, as a change of its columns requires."""
    (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'events'").fetchone()
    indexes = connection.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = 'events' AND type = 'index'"
    ).fetchall()
    # Write pages to disk before the commit, as a large store does.
    connection.execute("PRAGMA cache_size = 5")
    connection.execute(made.replace("events", "new_events", 1))
    connection.execute("INSERT INTO new_events SELECT * FROM events WHERE point() = 0")
    connection.execute("DROP TABLE events")
    connection.execute("ALTER TABLE new_events RENAME TO events")
    for (index,) in indexes:
        connection.execute(index)
    check_foreign_keys(connection)


def migrate(path: str, killed_at: int | None) -> int:
    """Migrate the file; return how many points were passed."""
    passed = 0

    def point(*_: object) -> int:
        nonlocal passed
        if passed == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1
        return 0

    connection = sqlite3.connect(path, isolation_level=None)
    connection.create_function("point", 0, point)
    connection.set_trace_callback(point)
    ensure_schema(connection, (*MIGRATIONS, widen_runs, rebuild_events))
    connection.set_trace_callback(None)
    connection.close()
    return passed


def main(path: str, count: int) -> None:
    whole = f"{path}.whole"
    shutil.copy(path, whole)
    points = migrate(whole, None)
    for number in range(count):
        copy = f"{path}.{number}"
        shutil.copy(path, copy)
        child = os.fork()
        if child == 0:
            migrate(copy, number * (points - 1) // (count - 1))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit(f"the process of point {number} was not killed")
    sys.stdout.write(f"{points}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
