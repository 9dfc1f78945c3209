"""The log of changes of quarantines.

An expired quarantine gets its row in the log only once a later write ends it. Until then, lists
derive the expiry from the quarantine. Retention ends old ones without a row.
"""

from __future__ import annotations

import sqlite3
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    Actor,
    ActorKind,
    ChangeAction,
    Quarantine,
    QuarantineChange,
    QuarantineChangeKey,
    QuarantineSource,
)
from indexing.names import RepositoryName
from indexing.quarantine.changes import record_change, record_expiry
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.notices import notify_quarantined
from indexing.store.sqlite.quarantine_rows import QUARANTINE_COLUMNS, quarantine_of
from indexing.store.sqlite.repositories import find_repository_id
from indexing.timestamps import from_microseconds, to_microseconds

_COLUMNS: Final = (
    "id, at, action, quarantine_id, test_name, branch, reason, source, actor_kind, actor_id,"
    " actor_name"
)


def add_change(
    connection: sqlite3.Connection,
    quarantine_id: bytes,
    action: ChangeAction,
    at: int,
    actor: Actor,
) -> None:
    """Record a change of a quarantine; its row must already have the new values."""
    quarantine, repository_id, test_id = _read(connection, quarantine_id)
    moment = from_microseconds(at)
    _insert(connection, repository_id, record_change(quarantine, action, moment, actor))
    if action is ChangeAction.ADDED:
        notify_quarantined(connection, repository_id, test_id, quarantine, moment)


def add_expiry(connection: sqlite3.Connection, quarantine_id: bytes) -> None:
    """Record that a quarantine has expired."""
    quarantine, repository_id, _ = _read(connection, quarantine_id)
    _insert(connection, repository_id, record_expiry(quarantine))


def list_changes(
    connection: sqlite3.Connection,
    repository: RepositoryName,
    now: datetime,
    anchor: Anchor[QuarantineChangeKey],
    limit: int,
) -> Page[QuarantineChange]:
    repository_id = find_repository_id(connection, repository)

    def fetch(rows: Slice) -> list[QuarantineChange]:
        stored = connection.execute(
            f"SELECT {_COLUMNS} FROM quarantine_changes WHERE repository_id = ?"
            f" AND {rows.condition} {rows.limited_order}",
            (repository_id, *rows.parameters),
        )
        found = [_change_of(row) for row in stored]
        found += _read_expired(connection, repository_id, to_microseconds(now), rows)
        found.sort(key=lambda change: _key_of(change.key), reverse=not rows.ascending)
        return found[: rows.limit]

    return read_page(
        fetch, ("at", "id"), anchor=anchor, key_of=_key_of, ascending=False, limit=limit
    )


def prune_changes(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` changes before that moment; return their number."""
    done = connection.execute(
        "DELETE FROM quarantine_changes WHERE id IN"
        " (SELECT id FROM quarantine_changes WHERE at < ? ORDER BY at LIMIT ?)",
        (to_microseconds(before), limit),
    )
    return done.rowcount


def prune_expiries(
    connection: sqlite3.Connection, before: datetime, now: datetime, limit: int
) -> int:
    """End up to `limit` quarantines that expired before that moment; return their number.

    Their expiries are not recorded, because `prune_changes` would delete them.
    """
    done = connection.execute(
        "UPDATE quarantines SET removed_at = expires_at, evidence_until = expires_at WHERE id IN"
        " (SELECT id FROM quarantines WHERE removed_at IS NULL AND expires_at < ?"
        " AND expires_at <= ? LIMIT ?)",
        (to_microseconds(before), to_microseconds(now), limit),
    )
    return done.rowcount


def _read(connection: sqlite3.Connection, quarantine_id: bytes) -> tuple[Quarantine, int, bytes]:
    *row, repository_id, test_id = connection.execute(
        f"SELECT {QUARANTINE_COLUMNS}, q.repository_id, q.test_id FROM quarantines q"
        " WHERE q.id = ?",
        (quarantine_id,),
    ).fetchone()
    return quarantine_of(tuple(row)), repository_id, test_id


def _insert(connection: sqlite3.Connection, repository_id: int, change: QuarantineChange) -> None:
    actor = change.actor
    connection.execute(
        f"INSERT INTO quarantine_changes (repository_id, {_COLUMNS})"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (
            repository_id,
            change.key.id.bytes,
            to_microseconds(change.key.at),
            change.action.value,
            change.quarantine_id.bytes,
            change.test_name,
            change.branch,
            change.reason,
            change.source.value,
            None if actor is None else actor.kind.value,
            None if actor is None else actor.id,
            None if actor is None else actor.name,
        ),
    )


def _read_expired(
    connection: sqlite3.Connection, repository_id: int | None, now: int, rows: Slice
) -> list[QuarantineChange]:
    """Return the expiries within the slice that have no row in the log yet."""
    rows = replace(rows, columns=("q.expires_at", "q.id"))
    expired = connection.execute(
        f"SELECT {QUARANTINE_COLUMNS} FROM quarantines q WHERE q.repository_id = ?"
        f" AND q.removed_at IS NULL AND q.expires_at <= ? AND {rows.condition}"
        f" {rows.limited_order}",
        (repository_id, now, *rows.parameters),
    )
    return [record_expiry(quarantine_of(row)) for row in expired]


def _key_of(key: QuarantineChangeKey) -> tuple[int, bytes]:
    return to_microseconds(key.at), key.id.bytes


def _change_of(row: tuple[Any, ...]) -> QuarantineChange:
    change_id, at, action, quarantine_id, test_name, branch, reason, source, kind, of, name = row
    return QuarantineChange(
        key=QuarantineChangeKey(from_microseconds(at), uuid.UUID(bytes=change_id)),
        action=ChangeAction(action),
        quarantine_id=uuid.UUID(bytes=quarantine_id),
        test_name=test_name,
        branch=branch,
        reason=reason,
        source=QuarantineSource(source),
        actor=None if kind is None else Actor(ActorKind(kind), name, of),
    )
