"""Leases, stored as rows of `meta`."""

from __future__ import annotations

import sqlite3
from datetime import datetime

import orjson

from indexing.leases import Lease
from indexing.store.sqlite.meta import read_value, remove_value, write_value


def hold_lease(
    connection: sqlite3.Connection, name: str, owner: str, now: datetime, until: datetime
) -> bool:
    lease = _find_lease(connection, name)
    if lease is not None and not lease.allows(owner, now):
        return False
    write_value(connection, _row(name), orjson.dumps(Lease(owner, until).to_record()))
    return True


def release_lease(connection: sqlite3.Connection, name: str, owner: str) -> None:
    lease = _find_lease(connection, name)
    if lease is not None and lease.owner == owner:
        remove_value(connection, _row(name))


def _find_lease(connection: sqlite3.Connection, name: str) -> Lease | None:
    found = read_value(connection, _row(name))
    return None if found is None else Lease.from_record(orjson.loads(found))


def _row(name: str) -> str:
    return f"lease:{name}"
