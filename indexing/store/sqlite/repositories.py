"""Rows of repositories: found by lower-case key, stored as first written.

Also the kinds of connections that read, one of which caches the ids of repositories.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

from indexing.errors import UnknownRepositoryError
from indexing.models.repositories import Repository
from indexing.names import RepositoryName

REPOSITORY_COLUMNS: Final = (
    "owner, name, default_branch, flaky_detection, auto_quarantine,"
    " ignore_broken_on_default_branch, quarantine_after"
)


def find_repository(connection: sqlite3.Connection, name: RepositoryName) -> Repository | None:
    row = connection.execute(
        f"SELECT {REPOSITORY_COLUMNS} FROM repositories WHERE key = ?",
        (name.key,),
    ).fetchone()
    return None if row is None else repository_of(row)


def list_repositories(connection: sqlite3.Connection) -> list[Repository]:
    rows = connection.execute(f"SELECT {REPOSITORY_COLUMNS} FROM repositories ORDER BY key")
    return [repository_of(row) for row in rows]


class InterruptibleConnection(sqlite3.Connection):
    """A connection whose reads can be interrupted between two statements too.

    SQLite interrupts only the statement that runs at that moment. It might never stop a read of
    many short statements.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Called before each statement; it raises an error if the read must end.
        self.check: Callable[[], None] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if self.check is not None:
            self.check()
        return super().execute(sql, parameters)


class ReadingConnection(InterruptibleConnection):
    """A read-only connection that caches the ids of repositories, which never change."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.repository_ids: dict[str, int] = {}


def find_repository_id(connection: sqlite3.Connection, name: RepositoryName) -> int | None:
    known = connection.repository_ids if isinstance(connection, ReadingConnection) else {}
    found: int | None = known.get(name.key)
    if found is not None:
        return found
    row = connection.execute("SELECT id FROM repositories WHERE key = ?", (name.key,)).fetchone()
    if row is not None:
        known[name.key] = found = row[0]
    return found


def require_repository_id(connection: sqlite3.Connection, name: RepositoryName) -> int:
    found = find_repository_id(connection, name)
    if found is None:
        raise UnknownRepositoryError(f"the repository {name} is not known")
    return found


def ensure_repository(connection: sqlite3.Connection, name: RepositoryName) -> Repository:
    default = Repository(name)
    connection.execute(
        f"INSERT INTO repositories (key, {REPOSITORY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO NOTHING",
        (
            name.key,
            name.owner,
            name.name,
            default.default_branch,
            default.flaky_detection,
            default.auto_quarantine,
            default.ignore_broken_on_default_branch,
            default.quarantine_after,
        ),
    )
    row = connection.execute(
        f"SELECT {REPOSITORY_COLUMNS} FROM repositories WHERE key = ?", (name.key,)
    ).fetchone()
    return repository_of(row)


def repository_of(row: tuple[Any, ...]) -> Repository:
    """Return the repository from the values of `REPOSITORY_COLUMNS`."""
    (
        owner,
        name,
        default_branch,
        flaky_detection,
        auto_quarantine,
        ignore_broken,
        quarantine_after,
    ) = row
    return Repository(
        RepositoryName(owner, name),
        default_branch,
        flaky_detection=bool(flaky_detection),
        auto_quarantine=bool(auto_quarantine),
        ignore_broken_on_default_branch=bool(ignore_broken),
        quarantine_after=quarantine_after,
    )
