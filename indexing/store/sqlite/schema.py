"""Reads the schema version of a file and migrates it to the newest one.

The version is stored in `PRAGMA user_version`. The migrations are in `migrations`.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from indexing.errors import StoreVersionError
from indexing.paths import exists
from indexing.store.sqlite.driver_errors import translated_errors
from indexing.store.sqlite.migrations import MIGRATIONS, Migration
from indexing.store.sqlite.migrations.version_2 import APPLICATION_ID

SCHEMA_VERSION: Final = len(MIGRATIONS)

# How often a process that waits for a migration, or runs one, logs that.
_WAITING_SECONDS: Final = 5
_PROGRESS_SECONDS: Final = 10.0
# Steps of SQLite's virtual machine between two clock checks: a tenth of a second or less.
_STEPS_PER_LOOK: Final = 1_000_000

# The environment variable that SQLite reads.
_TEMPORARY_FOLDER: Final = "SQLITE_TMPDIR"

_log = logging.getLogger(__name__)


def ensure_schema(
    connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Migrate the file to the newest version; several processes may call this at once.

    One of them migrates, the others wait for it. If the process is killed, the file is unchanged.
    Do not use the connection afterwards: it no longer enforces foreign keys.

    Raises:
        StoreVersionError: the file has a newer version, or belongs to another application.
    """
    newest = len(migrations)
    if require_known(connection, newest) == newest and _journal_mode(connection) == "wal":
        return
    connection.execute("PRAGMA foreign_keys = OFF")
    # To build an index is to sort it, which would take as much memory as the index has bytes.
    connection.execute("PRAGMA temp_store = FILE")
    _begin_alone(connection, newest)
    try:
        # Another process may have migrated the file first.
        found = require_known(connection, newest)
        if found < newest:
            with _temporary_files_beside(connection):
                _migrate(connection, found, migrations)
        connection.execute("COMMIT")
    except BaseException:
        # If the disk is full, SQLite has already ended the transaction.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def find_schema_version(path: Path) -> int | None:
    """Read the schema version of a file without changing it; `None` if it has no tables."""
    if not exists(path):
        return None
    with translated_errors(path):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
        try:
            return read_version(connection) or None
        finally:
            connection.close()


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version of the file's tables; 0 for an empty file.

    Raises:
        StoreVersionError: the file belongs to another application.
    """
    # Another process may create the tables between the two reads. That happens only once, so one
    # repetition is enough.
    for _ in range(2):
        version = _pragma(connection, "user_version")
        application = _pragma(connection, "application_id")
        if application == APPLICATION_ID or (application == 0 and _is_early(connection, version)):
            return version
    raise StoreVersionError(
        f"{_path_of(connection)} is an SQLite database, but not a store of mergewatch"
    )


def require_version(connection: sqlite3.Connection) -> None:
    """Raise `StoreVersionError` if another release has migrated the file since."""
    version = _pragma(connection, "user_version")
    if version != SCHEMA_VERSION:
        raise StoreVersionError(
            f"the store {_path_of(connection)} is of version {version} now, this process works on"
            f" version {SCHEMA_VERSION}: another release has upgraded it. Restart this process"
            " with that release"
        )


def _is_early(connection: sqlite3.Connection, version: int) -> bool:
    """Return whether a file without an application id is new or of version 1."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if version == 0:
        return not tables
    return version == 1 and {"meta", "events", "identities", "executions"} <= tables


def require_known(connection: sqlite3.Connection, newest: int = SCHEMA_VERSION) -> int:
    """Return the version of the file's tables; raise `StoreVersionError` if it is unknown."""
    version = read_version(connection)
    if version > newest:
        raise StoreVersionError(
            f"the store {_path_of(connection)} is of version {version}; this release of mergewatch"
            f" knows versions up to {newest}. Run the release that upgraded the store, or restore"
            " a backup that was made before"
        )
    return version


def _begin_alone(connection: sqlite3.Connection, newest: int) -> None:
    """Begin the file's write transaction, however long another process holds it."""
    connection.execute(f"PRAGMA busy_timeout = {_WAITING_SECONDS * 1000}")
    began = time.monotonic()
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            _log.warning(
                "waiting for another process that upgrades or writes the store %s, before it can"
                " be opened as version %d; %.0f s so far",
                _path_of(connection),
                newest,
                time.monotonic() - began,
            )
        else:
            return


def _migrate(connection: sqlite3.Connection, found: int, migrations: Sequence[Migration]) -> None:
    newest = len(migrations)
    began = time.monotonic()
    if found:
        _log.warning(
            "upgrading the store %s from version %d to %d", _path_of(connection), found, newest
        )
    for version in range(found + 1, newest + 1):
        with _progress(connection, version, newest):
            migrations[version - 1](connection)
        connection.execute(f"PRAGMA user_version = {version}")
    if found:
        seconds = time.monotonic() - began
        _log.warning("upgraded the store to version %d in %.1f s", newest, seconds)


@contextmanager
def _temporary_files_beside(connection: sqlite3.Connection) -> Iterator[None]:
    """Let SQLite keep its temporary files in the folder of the store, unless told otherwise.

    The folder for temporary files may be small, or in memory. These files have no names, so a kill
    leaves none.
    """
    if _TEMPORARY_FOLDER in os.environ:
        yield
        return
    os.environ[_TEMPORARY_FOLDER] = str(Path(_path_of(connection)).parent)
    try:
        yield
    finally:
        del os.environ[_TEMPORARY_FOLDER]


@contextmanager
def _progress(connection: sqlite3.Connection, version: int, newest: int) -> Iterator[None]:
    """Log from time to time that a migration is still running."""
    began = last = time.monotonic()

    def look() -> int:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PROGRESS_SECONDS:
            last = now
            _log.warning(
                "upgrading the store to version %d of %d; %.0f s so far",
                version,
                newest,
                now - began,
            )
        return 0

    connection.set_progress_handler(look, _STEPS_PER_LOOK)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _journal_mode(connection: sqlite3.Connection) -> str:
    mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return mode


def _path_of(connection: sqlite3.Connection) -> str:
    # As bytes, because a path need not be UTF-8.
    query = "SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'"
    return os.fsdecode(connection.execute(query).fetchone()[0] or b"")
