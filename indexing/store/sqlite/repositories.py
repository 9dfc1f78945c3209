"""Rows of repositories: found by their key, kept in the spelling that came first."""

from __future__ import annotations

import sqlite3

from indexing.errors import UnknownRepositoryError
from indexing.models.repositories import Repository, RepositoryChange
from indexing.names import RepositoryName

_COLUMNS = "owner, name, default_branch, flaky_detection"


def find_repository(connection: sqlite3.Connection, name: RepositoryName) -> Repository | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM repositories WHERE key = ?",
        (name.key,),
    ).fetchone()
    return None if row is None else _repository_of(row)


def find_repository_id(connection: sqlite3.Connection, name: RepositoryName) -> int | None:
    row = connection.execute("SELECT id FROM repositories WHERE key = ?", (name.key,)).fetchone()
    return None if row is None else row[0]


def require_repository_id(connection: sqlite3.Connection, name: RepositoryName) -> int:
    found = find_repository_id(connection, name)
    if found is None:
        raise UnknownRepositoryError(f"the repository {name} is not known")
    return found


def ensure_repository(connection: sqlite3.Connection, name: RepositoryName) -> Repository:
    default = Repository(name)
    connection.execute(
        f"INSERT INTO repositories (key, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO NOTHING",
        (name.key, name.owner, name.name, default.default_branch, default.flaky_detection),
    )
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM repositories WHERE key = ?", (name.key,)
    ).fetchone()
    return _repository_of(row)


def set_repository(
    connection: sqlite3.Connection, name: RepositoryName, change: RepositoryChange
) -> Repository:
    before = ensure_repository(connection, name)
    repository_id = require_repository_id(connection, name)
    connection.execute(
        "UPDATE repositories SET default_branch = coalesce(?, default_branch),"
        " flaky_detection = coalesce(?, flaky_detection) WHERE id = ?",
        (change.default_branch, change.flaky_detection, repository_id),
    )
    after = ensure_repository(connection, name)
    if after.default_branch != before.default_branch:
        # First and last are of the default branch; what another branch left must not be merged in.
        connection.execute(
            "UPDATE tests SET first_failure_at = NULL, first_failure_commit = NULL,"
            " first_failure_pull = NULL, last_failure_at = NULL, last_success_at = NULL"
            " WHERE repository_id = ?",
            (repository_id,),
        )
    if after != before:
        connection.execute(
            "INSERT INTO stale_tests (test) SELECT id FROM tests WHERE repository_id = ?"
            " ON CONFLICT DO NOTHING",
            (repository_id,),
        )
    return after


def _repository_of(row: tuple[str, str, str, int]) -> Repository:
    owner, name, default_branch, flaky_detection = row
    return Repository(
        RepositoryName(owner, name), default_branch, flaky_detection=bool(flaky_detection)
    )
