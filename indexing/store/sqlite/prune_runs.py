"""The record of the last retention run, stored as one row of `meta`."""

from __future__ import annotations

import sqlite3
from typing import Final

import orjson

from indexing.pruning import PruneRun, from_record, to_record
from indexing.store.sqlite.meta import read_value, write_value

_NAME: Final = "prune_run"


def get_prune_run(connection: sqlite3.Connection) -> PruneRun | None:
    found = read_value(connection, _NAME)
    return None if found is None else from_record(orjson.loads(found))


def replace_prune_run(connection: sqlite3.Connection, seen: PruneRun | None, run: PruneRun) -> bool:
    if get_prune_run(connection) != seen:
        return False
    write_value(connection, _NAME, orjson.dumps(to_record(run)))
    return True
