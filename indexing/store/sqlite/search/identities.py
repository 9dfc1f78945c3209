"""Finds a single row of the search by its id."""

from __future__ import annotations

import sqlite3

from indexing.models.tests import IdentityKey
from indexing.names import RepositoryName


def find_identity(
    connection: sqlite3.Connection, repository: RepositoryName, identity_id: bytes
) -> IdentityKey | None:
    row = connection.execute(
        "SELECT i.executions_count, i.test_name, i.pipeline_name, i.job_name FROM identities i"
        " JOIN repositories r ON r.id = i.repository_id"
        " WHERE i.identity_id = ? AND r.key = ? AND i.executions_count IS NOT NULL",
        (identity_id, repository.key),
    ).fetchone()
    return None if row is None else IdentityKey(*row)
