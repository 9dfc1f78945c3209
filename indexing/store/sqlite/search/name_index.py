"""Writes the names of tests to the n-gram indexes, which keep no copy of the names."""

from __future__ import annotations

import sqlite3

from indexing.store.sqlite.search.plan import bigram_text, row_of


def add_name(connection: sqlite3.Connection, repository_id: int, test: int, name: str) -> None:
    row = row_of(repository_id, test)
    connection.execute("INSERT INTO test_trigrams (rowid, name) VALUES (?, ?)", (row, name))
    connection.execute(
        "INSERT INTO test_bigrams (rowid, name) VALUES (?, ?)", (row, bigram_text(name))
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
        add_name(connection, repository_id, test, name)
