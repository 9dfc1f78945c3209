"""Rows of CODEOWNERS files: one unchanged text for each repository."""

from __future__ import annotations

import sqlite3

from indexing.models.repositories import check_code_owners
from indexing.names import RepositoryName
from indexing.store.sqlite.repositories import ensure_repository, require_repository_id


def set_code_owners(connection: sqlite3.Connection, name: RepositoryName, text: str | None) -> None:
    ensure_repository(connection, name)
    repository_id = require_repository_id(connection, name)
    if text is None:
        connection.execute("DELETE FROM code_owners WHERE repository_id = ?", (repository_id,))
        return
    connection.execute(
        "INSERT INTO code_owners (repository_id, text) VALUES (?1, ?2)"
        " ON CONFLICT (repository_id) DO UPDATE SET text = ?2",
        (repository_id, check_code_owners(text)),
    )


def get_code_owners(connection: sqlite3.Connection, repository: RepositoryName) -> str | None:
    row = connection.execute(
        "SELECT c.text FROM code_owners c JOIN repositories r ON r.id = c.repository_id"
        " WHERE r.key = ?",
        (repository.key,),
    ).fetchone()
    return None if row is None else str(row[0])
