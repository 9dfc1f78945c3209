"""Lists the files of a repository's tests."""

from __future__ import annotations

import sqlite3
from typing import Final

import orjson

from indexing.names import RepositoryName
from indexing.store.sqlite.repositories import find_repository_id

# Returns one row: for each row, a thread waits for the interpreter's lock.
_FILES: Final = """
SELECT json_group_array(filepath) FROM (
    SELECT DISTINCT filepath FROM tests INDEXED BY tests_by_filepath
    WHERE repository_id = ? AND filepath {after} ? ORDER BY filepath LIMIT ?
)
"""


def list_filepaths(
    connection: sqlite3.Connection, repository: RepositoryName, after: str | None, limit: int
) -> list[str]:
    repository_id = find_repository_id(connection, repository)
    if repository_id is None:
        return []
    sql = _FILES.format(after=">=" if after is None else ">")
    (found,) = connection.execute(sql, (repository_id, after or "", limit)).fetchone()
    paths: list[str] = orjson.loads(found)
    return paths
