"""Writes the n-gram indexes of names again, in short transactions, while others read and write.

The names go into new indexes, which then replace those in use. A trigger notes the tests that are
added meanwhile: their names are only in the indexes in use, and are written last. A name that is
removed meanwhile stays in the new indexes; no search shows a row without a test.

A rebuild that is killed leaves the new indexes and the trigger, until the next one replaces them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final

from indexing.store.pace import Pace
from indexing.store.sqlite.meta import read_number, remove_value, write_number
from indexing.store.sqlite.pace import new_pace
from indexing.store.sqlite.search.name_index import BIGRAMS, TRIGRAMS, add_names

# The row of `meta` with the mark of the rebuild that the new indexes belong to.
_MARK: Final = "name_rebuild"
_NEW: Final = (f"new_{TRIGRAMS}", f"new_{BIGRAMS}")
_INDEXES: Final = tuple(zip((TRIGRAMS, BIGRAMS), _NEW, strict=True))

_REMOVE: Final = (
    "DROP TRIGGER IF EXISTS note_added_test",
    "DROP TABLE IF EXISTS added_tests",
    *(f"DROP TABLE IF EXISTS {new}" for new in _NEW),
)
_NOTE_ADDED: Final = """
CREATE TRIGGER note_added_test AFTER INSERT ON tests BEGIN
    INSERT OR IGNORE INTO added_tests VALUES (new.id);
END"""

Name = tuple[int, int, str]


@dataclass(slots=True)
class NameRebuild:
    """One rebuild of both indexes; `mark` is a number that no other rebuild has."""

    mark: int
    _last: int = 0
    _until: int = 0
    _pace: Pace = field(default_factory=new_pace)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Create the new indexes; those of an earlier rebuild are dropped."""
        for statement in _REMOVE:
            connection.execute(statement)
        connection.execute("CREATE TABLE added_tests (test INTEGER PRIMARY KEY)")
        connection.execute(_NOTE_ADDED)
        for index, new in _INDEXES:
            (definition,) = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (index,)
            ).fetchone()
            connection.execute(definition.replace(index, new, 1))
        write_number(connection, _MARK, self.mark)
        (last,) = connection.execute("SELECT max(id) FROM tests").fetchone()
        self._until = last or 0

    def write_some(self, connection: sqlite3.Connection) -> bool:
        """Write some names; return whether there is more to do.

        The last call puts the new indexes in place. If another rebuild has begun, it is left to it.
        """
        if read_number(connection, _MARK) != self.mark:
            return False
        began = time.monotonic()
        names = self._next_names(connection) or self._next_added(connection)
        if names:
            # A full-text index is written faster in the order of its row ids.
            for repository_id, some in groupby(sorted(names), itemgetter(0)):
                of_tests = [(test, name) for _, test, name in some]
                add_names(connection, repository_id, of_tests, _NEW)
            self._pace.learn(len(names), time.monotonic() - began)
            return True
        self._replace(connection)
        return False

    def _next_names(self, connection: sqlite3.Connection) -> Sequence[Name]:
        """Return the next names of the tests that there were at the beginning."""
        names = connection.execute(
            "SELECT repository_id, id, test_name FROM tests WHERE id > ? AND id <= ?"
            " AND id NOT IN (SELECT test FROM added_tests) ORDER BY id LIMIT ?",
            (self._last, self._until, self._pace.rows),
        ).fetchall()
        self._last = names[-1][1] if names else self._until
        return names

    def _next_added(self, connection: sqlite3.Connection) -> Sequence[Name]:
        """Return the names of some tests that were added meanwhile, and forget these tests."""
        names = connection.execute(
            "SELECT t.repository_id, t.id, t.test_name FROM added_tests a"
            " JOIN tests t ON t.id = a.test ORDER BY a.test LIMIT ?",
            (self._pace.rows,),
        ).fetchall()
        connection.executemany(
            "DELETE FROM added_tests WHERE test = ?", [(test,) for _, test, _ in names]
        )
        return names

    def _replace(self, connection: sqlite3.Connection) -> None:
        for index, new in _INDEXES:
            connection.execute(f"DROP TABLE {index}")
            connection.execute(f"ALTER TABLE {new} RENAME TO {index}")
        for statement in _REMOVE:
            connection.execute(statement)
        remove_value(connection, _MARK)
