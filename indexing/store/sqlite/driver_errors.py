"""Translates errors of the driver and the file system into this project's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from indexing.errors import StoreError, StoreUnavailableError

_UNAVAILABLE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOMEM,
        # The file was damaged while open; an operator has to restore a good copy.
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }
)

_ACCESS: Final = ": this user has to be able to read and write that file, and others beside it"
# What to look at, where SQLite's own words do not say it.
_HINTS: Final = {
    sqlite3.SQLITE_CANTOPEN: _ACCESS,
    sqlite3.SQLITE_READONLY: _ACCESS,
    # On a full disk, a process fails like this if no other one has the store open.
    sqlite3.SQLITE_IOERR_SHMSIZE: ": there is no room for its file -shm, is the disk full?",
}


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Translate errors of the driver and the file system into this project's errors."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        kind = StoreUnavailableError if code & 0xFF in _UNAVAILABLE else StoreError
        raise kind(f"the store {path} failed: {error}{_HINTS.get(code, '')}") from error
    except OSError as error:
        raise StoreUnavailableError(f"the store {path} failed: {error.strerror}") from error


def make_folder_of(path: Path) -> None:
    """Create the folder of the store at this path, and those above it.

    Raises:
        StoreError: one of them is something else.
        StoreUnavailableError: it cannot be created for another reason.
    """
    with translated_errors(path):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise StoreError(
                f"the store needs the folder {path.parent}, but it or a folder above it is a file"
                " or a link to nothing"
            ) from error
