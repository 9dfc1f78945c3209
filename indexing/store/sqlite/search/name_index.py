"""Writes the names of tests to the n-gram indexes, which keep no copy of the names."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from indexing.store.sqlite.search.plan import bigram_text, row_of


def add_names(
    connection: sqlite3.Connection, repository_id: int, names: Sequence[tuple[int, str]]
) -> None:
    """Add the names of tests, each with the row id of its test."""
    connection.executemany(
        "INSERT INTO test_trigrams (rowid, name) VALUES (?, ?)",
        [(row_of(repository_id, test), name) for test, name in names],
    )
    connection.executemany(
        "INSERT INTO test_bigrams (rowid, name) VALUES (?, ?)",
        [(row_of(repository_id, test), bigram_text(name)) for test, name in names],
    )


def remove_name(connection: sqlite3.Connection, repository_id: int, test: int, name: str) -> None:
    """Remove a name; it must be the same as the one that was added."""
    row = row_of(repository_id, test)
    for table, text in (("test_trigrams", name), ("test_bigrams", bigram_text(name))):
        connection.execute(
            f"INSERT INTO {table} ({table}, rowid, name) VALUES ('delete', ?, ?)", (row, text)
        )


def rebuild_names(connection: sqlite3.Connection) -> None:
    """Delete the contents of both indexes and write them again."""
    for table in ("test_trigrams", "test_bigrams"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
    # A full-text index is written faster in the order of its row ids. Without a LIMIT, SQLite
    # ignores the order of a subquery.
    names = connection.execute(
        "SELECT t.repository_id, t.id, t.test_name"
        " FROM (SELECT id FROM tests ORDER BY repository_id, id LIMIT -1) ordered"
        " CROSS JOIN tests t ON t.id = ordered.id"
    )
    for repository_id, test, name in names:
        add_names(connection, repository_id, [(test, name)])
