"""Rows of repositories: found by lower-case key, stored as first written."""

from __future__ import annotations

import sqlite3
from typing import Any

from indexing.errors import UnknownRepositoryError
from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store.sqlite.reading_connections import ReadingConnection

REPOSITORY_COLUMNS = (
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
