"""Version 14: searches for endings and for two characters, without a walk over all names.

The trigram index gets other row numbers, in which the tests of a repository are a range, and loses
the mark of the repository before each name.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_ENDING_LENGTH: Final = 16
_ENDING: Final = " || ".join(f"substr(test_name, -{n}, 1)" for n in range(1, _ENDING_LENGTH + 1))

# The index holds the end of each name, reversed, so names with a common suffix are a range. It is
# over an expression: unlike a column, this costs nothing when a row is updated. The terms of
# test_bigrams are two bytes each; see `search/plan.py`.
_TABLES: Final = f"""
CREATE INDEX identities_by_ending ON identities (repository_id, ({_ENDING}))
    WHERE health_status IS NOT NULL;

DROP TABLE test_trigrams;
CREATE VIRTUAL TABLE test_trigrams USING fts5 (
    name, content = '', columnsize = 0, detail = none, tokenize = 'trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE test_bigrams USING fts5 (
    name, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);
"""

_TEST_BITS: Final = 36


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
    # The full-text index is written faster in the order of its row ids. Without a LIMIT, SQLite
    # ignores the order of a subquery.
    names = connection.execute(
        "SELECT t.repository_id, t.id, t.test_name"
        " FROM (SELECT id FROM tests ORDER BY repository_id, id LIMIT -1) ordered"
        " CROSS JOIN tests t ON t.id = ordered.id"
    )
    for repository_id, test, name in names:
        row = repository_id << _TEST_BITS | test
        text = name.encode()
        pairs = f"{text.hex(' ', 2)} {text[:-1].hex(' ', 2)}"
        connection.execute("INSERT INTO test_trigrams (rowid, name) VALUES (?, ?)", (row, name))
        connection.execute("INSERT INTO test_bigrams (rowid, name) VALUES (?, ?)", (row, pairs))
