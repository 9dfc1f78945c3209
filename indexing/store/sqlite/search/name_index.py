"""Writes the names of tests to the n-gram indexes, which keep no copy of the names."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from indexing.store.sqlite.search.plan import bigram_text, row_of

TRIGRAMS: Final = "test_trigrams"
BIGRAMS: Final = "test_bigrams"


def add_names(
    connection: sqlite3.Connection,
    repository_id: int,
    names: Sequence[tuple[int, str]],
    tables: tuple[str, str] = (TRIGRAMS, BIGRAMS),
) -> None:
    """Add the names of tests, each with the row id of its test, to both indexes."""
    trigrams, bigrams = tables
    connection.executemany(
        f"INSERT INTO {trigrams} (rowid, name) VALUES (?, ?)",
        [(row_of(repository_id, test), name) for test, name in names],
    )
    connection.executemany(
        f"INSERT INTO {bigrams} (rowid, name) VALUES (?, ?)",
        [(row_of(repository_id, test), bigram_text(name)) for test, name in names],
    )


def remove_name(connection: sqlite3.Connection, repository_id: int, test: int, name: str) -> None:
    """Remove a name; it must be the same as the one that was added."""
    row = row_of(repository_id, test)
    for table, text in ((TRIGRAMS, name), (BIGRAMS, bigram_text(name))):
        connection.execute(
            f"INSERT INTO {table} ({table}, rowid, name) VALUES ('delete', ?, ?)", (row, text)
        )
