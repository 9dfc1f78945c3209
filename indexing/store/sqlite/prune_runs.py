"""The record of the last retention run, stored as one row of `meta`."""

from __future__ import annotations

import sqlite3
from typing import Final

import orjson

from indexing.pruning import PruneRun, from_record, to_record

_NAME: Final = "prune_run"


def get_prune_run(connection: sqlite3.Connection) -> PruneRun | None:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (_NAME,)).fetchone()
    return None if row is None else from_record(orjson.loads(row[0]))


def replace_prune_run(connection: sqlite3.Connection, seen: PruneRun | None, run: PruneRun) -> bool:
    if get_prune_run(connection) != seen:
        return False
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?1, ?2)"
        " ON CONFLICT (name) DO UPDATE SET value = ?2",
        (_NAME, orjson.dumps(to_record(run))),
    )
    return True
