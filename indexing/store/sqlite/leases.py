"""Leases, stored as rows of `meta`."""

from __future__ import annotations

import sqlite3
from datetime import datetime

import orjson

from indexing.leases import Lease


def hold_lease(
    connection: sqlite3.Connection, name: str, owner: str, now: datetime, until: datetime
) -> bool:
    found = connection.execute("SELECT value FROM meta WHERE name = ?", (_row(name),)).fetchone()
    if found is not None and not Lease.from_record(orjson.loads(found[0])).allows(owner, now):
        return False
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?1, ?2)"
        " ON CONFLICT (name) DO UPDATE SET value = ?2",
        (_row(name), orjson.dumps(Lease(owner, until).to_record())),
    )
    return True


def release_lease(connection: sqlite3.Connection, name: str, owner: str) -> None:
    found = connection.execute("SELECT value FROM meta WHERE name = ?", (_row(name),)).fetchone()
    if found is not None and Lease.from_record(orjson.loads(found[0])).owner == owner:
        connection.execute("DELETE FROM meta WHERE name = ?", (_row(name),))


def _row(name: str) -> str:
    return f"lease:{name}"
