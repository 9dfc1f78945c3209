"""Rows of application keys."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any, Final

from indexing.errors import StoreError
from indexing.models.keys import ApplicationKey, Scope
from indexing.names import RepositoryName
from indexing.store.sqlite.repositories import ensure_repository
from indexing.timestamps import (
    from_microseconds,
    microseconds_or_none,
    moment_or_none,
    to_microseconds,
)

_COLUMNS: Final = "id, name, scope, owner, repository, digest, created_at, expires_at, revoked_at"


def find_key(connection: sqlite3.Connection, digest: bytes) -> ApplicationKey | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM application_keys WHERE digest = ?", (digest,)
    ).fetchone()
    return None if row is None else _key_of(row)


def get_key(connection: sqlite3.Connection, key_id: str) -> ApplicationKey | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM application_keys WHERE id = ?", (key_id,)
    ).fetchone()
    return None if row is None else _key_of(row)


def list_keys(connection: sqlite3.Connection) -> list[ApplicationKey]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM application_keys ORDER BY created_at, id")
    return [_key_of(row) for row in rows]


def add_key(connection: sqlite3.Connection, key: ApplicationKey) -> None:
    if key.repository is not None:
        ensure_repository(connection, RepositoryName(key.owner, key.repository))
    added = connection.execute(
        f"INSERT INTO application_keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (
            key.id,
            key.name,
            key.scope.value,
            key.owner,
            key.repository,
            key.digest,
            to_microseconds(key.created_at),
            microseconds_or_none(key.expires_at),
            microseconds_or_none(key.revoked_at),
        ),
    )
    if not added.rowcount and find_key(connection, key.digest) != key:
        raise StoreError("another application key has that id or that digest")


def revoke_key(connection: sqlite3.Connection, key_id: str, now: datetime) -> bool:
    done = connection.execute(
        "UPDATE application_keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?",
        (to_microseconds(now), key_id),
    )
    return done.rowcount > 0


def _key_of(row: tuple[Any, ...]) -> ApplicationKey:
    key_id, name, scope, owner, repository, digest, created_at, expires_at, revoked_at = row
    return ApplicationKey(
        id=key_id,
        name=name,
        scope=Scope(scope),
        owner=owner,
        repository=repository,
        digest=digest,
        created_at=from_microseconds(created_at),
        expires_at=moment_or_none(expires_at),
        revoked_at=moment_or_none(revoked_at),
    )
