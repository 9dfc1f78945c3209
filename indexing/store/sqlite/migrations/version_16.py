"""Version 16: the writer of events adds their counts up, instead of database triggers.

An insert with triggers takes twice as much time. Events are deleted rarely, so that stays to
triggers. Counts by pull request and day are replaced by columns of the events of large days, which
are made later.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR

# Version 7 made the rest. `counted` events are in the columns of the day: the first to arrive, up
# to the row id `newest`.
_TABLES: Final = f"""
DROP TRIGGER events_added;
DROP TRIGGER events_of_pulls_added;
DROP TRIGGER events_of_pulls_dropped;
DROP TABLE event_pull_counts;

CREATE TABLE event_days (
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    start INTEGER NOT NULL,
    events INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    PRIMARY KEY (repository_id, start)
) STRICT, WITHOUT ROWID;
INSERT INTO event_days SELECT repository_id, start, sum(count), 0 FROM event_counts
    WHERE span = {_DAY} GROUP BY 1, 2;
CREATE INDEX event_days_to_count ON event_days (start)
    WHERE events > counted AND events >= 256;

CREATE TABLE event_columns (
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    start INTEGER NOT NULL,
    newest INTEGER NOT NULL,
    header BLOB NOT NULL,
    pulls BLOB NOT NULL,
    codes BLOB NOT NULL,
    UNIQUE (repository_id, start)
) STRICT;
"""

# A time before 1970 has a negative remainder.
_START: Final = f"old.received_at - (old.received_at % {_DAY} + {_DAY}) % {_DAY}"
_THESE: Final = f"(repository_id, start) = (old.repository_id, {_START})"


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
    connection.execute(
        "CREATE TRIGGER events_of_days_dropped AFTER DELETE ON events BEGIN"
        f" UPDATE event_days SET events = events - 1, counted = 0 WHERE {_THESE};"
        f" DELETE FROM event_days WHERE {_THESE} AND events = 0;"
        f" DELETE FROM event_columns WHERE {_THESE}; END"
    )
