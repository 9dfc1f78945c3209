"""Adds notifications to the outboxes of webhooks, in the transaction of the change itself."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import datetime
from typing import Any, Final

import orjson

from indexing.models.notifications import NotificationType
from indexing.models.quarantines import Quarantine
from indexing.models.tests import HealthStatus
from indexing.notifications.records import noticed_from_record, noticed_to_record
from indexing.notifications.rules import (
    EXPIRING_WITHIN,
    is_quiet,
    notice_quarantine,
    noticed_by,
    pending_notification,
    plan_notification,
)
from indexing.store.sqlite.outbox import enqueue
from indexing.store.sqlite.quarantine_rows import QUARANTINE_COLUMNS, quarantine_of
from indexing.store.sqlite.webhooks import find_subscription
from indexing.timestamps import (
    MICROSECOND,
    microseconds_or_none,
    moment_or_none,
    to_microseconds,
)

_HEALTH: Final = "health"
_QUARANTINE: Final = "quarantine"


def notify_health(
    connection: sqlite3.Connection,
    test: int,
    before: HealthStatus,
    after: HealthStatus,
    now: datetime,
) -> None:
    """Notify the repository's webhooks if a test's health differs from what they last received."""
    row = connection.execute(
        "SELECT t.repository_id, t.test_id, t.test_name FROM tests t WHERE t.id = ?"
        " AND EXISTS (SELECT 1 FROM webhooks w WHERE w.repository_id = t.repository_id)",
        (test,),
    ).fetchone()
    if row is None:
        return
    repository_id, test_id, test_name = row
    subscription = find_subscription(connection, repository_id)
    if subscription is None:
        return
    state = _read(connection, test_id, _HEALTH)
    stored = None if state is None else noticed_from_record(state)
    planned = plan_notification(noticed_by(subscription, stored, before, now), after, now)
    due = pending_notification(planned, uuid.UUID(bytes=test_id), test_name)
    if due is not None:
        enqueue(connection, subscription, due)
        _write(connection, test_id, _HEALTH, noticed_to_record(planned.after_pending()))


def notify_quarantined(
    connection: sqlite3.Connection,
    repository_id: int,
    test_id: bytes,
    quarantine: Quarantine,
    at: datetime,
) -> None:
    """Notify the repository's webhooks of a quarantine, unless they were notified recently."""
    subscription = find_subscription(connection, repository_id)
    if subscription is None:
        return
    branch = quarantine.branch
    about = _QUARANTINE if branch is None else f"{_QUARANTINE} {branch}"
    state = _read(connection, test_id, about)
    if is_quiet(moment_or_none(state), at):
        return
    kind = NotificationType.QUARANTINED
    enqueue(
        connection, subscription, notice_quarantine(kind, quarantine, at, uuid.UUID(bytes=test_id))
    )
    _write(connection, test_id, about, to_microseconds(at))


def notify_expiring(connection: sqlite3.Connection, now: datetime, limit: int) -> int:
    """Notify webhooks of up to `limit` quarantines that expire soon; return their number."""
    found = _find_expiring(connection, now, limit)
    for repository_id, test_id, quarantine in found:
        subscription = find_subscription(connection, repository_id)
        if subscription is not None:
            kind = NotificationType.EXPIRING
            notification = notice_quarantine(kind, quarantine, now, uuid.UUID(bytes=test_id))
            enqueue(connection, subscription, notification)
        connection.execute(
            "UPDATE quarantines SET expiry_told = ? WHERE id = ?",
            (microseconds_or_none(quarantine.expires_at), quarantine.key.id.bytes),
        )
    return len(found)


def forget(connection: sqlite3.Connection, test_id: bytes) -> None:
    """Delete the record of what webhooks were notified about a test."""
    connection.execute("DELETE FROM notices WHERE test_id = ?", (test_id,))


def _find_expiring(
    connection: sqlite3.Connection, now: datetime, limit: int
) -> list[tuple[int, bytes, Quarantine]]:
    """Return up to `limit` quarantines that expire soon and were not notified yet.

    The conditions are those of `is_expiring`, because a repository may have thousands of
    quarantines that it never becomes true for. An index has the rows in this order.
    """
    rows = connection.execute(
        f"SELECT q.repository_id, q.test_id, {QUARANTINE_COLUMNS} FROM quarantines q"
        " INDEXED BY quarantines_by_expiry"
        " WHERE q.repository_id IN (SELECT repository_id FROM webhooks)"
        " AND q.removed_at IS NULL AND q.expires_at > ? AND q.expires_at <= ?"
        " AND q.expires_at - q.created_at > ? AND q.expiry_told IS NOT q.expires_at"
        " ORDER BY q.repository_id, q.expires_at, q.id LIMIT ?",
        (
            to_microseconds(now),
            to_microseconds(now + EXPIRING_WITHIN),
            EXPIRING_WITHIN // MICROSECOND,
            limit,
        ),
    ).fetchall()
    return [
        (repository_id, test_id, quarantine_of(tuple(quarantine)))
        for repository_id, test_id, *quarantine in rows
    ]


def _read(connection: sqlite3.Connection, test_id: bytes, about: str) -> Any:
    row = connection.execute(
        "SELECT state FROM notices WHERE test_id = ? AND about = ?", (test_id, about)
    ).fetchone()
    return None if row is None else orjson.loads(row[0])


def _write(connection: sqlite3.Connection, test_id: bytes, about: str, state: Any) -> None:
    connection.execute(
        "INSERT INTO notices (test_id, about, state) VALUES (?1, ?2, ?3)"
        " ON CONFLICT (test_id, about) DO UPDATE SET state = ?3",
        (test_id, about, orjson.dumps(state)),
    )
