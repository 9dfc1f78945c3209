"""The main function of a process that computes tests for a rebuild.

It only reads the file. It ends when the process that started it closes the connection or ends.
"""

from __future__ import annotations

import os
import pickle
import socket
import sqlite3
import sys
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from indexing.errors import DATA_ERRORS, StoreError
from indexing.store.sqlite.connections import READER_BUSY_SECONDS, SLOW_NICENESS, connect
from indexing.store.sqlite.refresh import compute_changed_rows
from indexing.store.sqlite.schema import require_version


def main() -> None:
    """Compute tests until the connection ends.

    The arguments are the path of the file, the time of the rebuild, and the descriptor of the
    connection. Whatever fails here, the other process notices and reports when it does the work.
    """
    path, now, descriptor = sys.argv[1:]
    # A service that shares the processors goes first.
    os.nice(SLOW_NICENESS)
    with (
        suppress(EOFError, OSError, sqlite3.Error, StoreError, *DATA_ERRORS),
        socket.socket(fileno=int(descriptor)) as parent,
        closing(connect(Path(path), READER_BUSY_SECONDS, sqlite3.Connection)) as connection,
    ):
        _work(parent, connection, datetime.fromisoformat(now))


def _work(parent: socket.socket, connection: sqlite3.Connection, now: datetime) -> None:
    connection.execute("PRAGMA query_only = ON")
    given = parent.makefile("rb")
    while True:
        tests, mark = pickle.load(given)  # noqa: S301 - of the process that started this one
        connection.execute("BEGIN")
        require_version(connection)
        computed = compute_changed_rows(connection, tests, mark, now)
        connection.execute("ROLLBACK")
        parent.sendall(pickle.dumps(computed))


if __name__ == "__main__":
    main()
