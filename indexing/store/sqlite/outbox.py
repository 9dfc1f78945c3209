"""Rows of the outbox: notifications that wait for delivery to a webhook, and dead letters."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

import orjson

from indexing.models.notifications import MAX_FOUND, Notification, OutboxCount
from indexing.notifications.records import from_record, retry_record, to_record
from indexing.notifications.rules import Subscription
from indexing.timestamps import moment_or_none, to_microseconds


def enqueue(
    connection: sqlite3.Connection, subscription: Subscription, notification: Notification
) -> None:
    """Add the notification to the outbox of each webhook; repeated calls add it only once."""
    body = orjson.dumps(to_record(notification))
    connection.executemany(
        "INSERT INTO outbox (webhook_id, notification_id, created_at, body) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [
            (webhook.bytes, notification.id.bytes, to_microseconds(notification.at), body)
            for webhook in subscription.webhooks
        ],
    )


def find_waiting(connection: sqlite3.Connection) -> Collection[uuid.UUID]:
    rows = connection.execute(
        "SELECT w.id FROM webhooks w WHERE EXISTS"
        " (SELECT 1 FROM outbox o WHERE o.webhook_id = w.id AND o.is_dead = 0)"
        f" LIMIT {MAX_FOUND}"
    )
    return {uuid.UUID(bytes=webhook_id) for (webhook_id,) in rows}


def list_outbox(
    connection: sqlite3.Connection, webhook_id: uuid.UUID, limit: int
) -> Sequence[Notification]:
    rows = connection.execute(
        "SELECT body FROM outbox WHERE webhook_id = ? AND is_dead = 0 ORDER BY number LIMIT ?",
        (webhook_id.bytes, limit),
    )
    return [from_record(orjson.loads(body)) for (body,) in rows]


def count_outbox(connection: sqlite3.Connection, webhook_id: uuid.UUID) -> OutboxCount:
    waiting, dead, oldest = connection.execute(
        "SELECT count(*) FILTER (WHERE is_dead = 0), count(*) FILTER (WHERE is_dead = 1),"
        " min(created_at) FILTER (WHERE is_dead = 0) FROM outbox WHERE webhook_id = ?",
        (webhook_id.bytes,),
    ).fetchone()
    return OutboxCount(waiting, dead, moment_or_none(oldest))


def remove_sent(
    connection: sqlite3.Connection, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
) -> None:
    connection.executemany(
        "DELETE FROM outbox WHERE webhook_id = ? AND notification_id = ?",
        [(webhook_id.bytes, each.bytes) for each in notifications],
    )


def give_up(
    connection: sqlite3.Connection, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
) -> None:
    connection.executemany(
        "UPDATE outbox SET is_dead = 1 WHERE webhook_id = ? AND notification_id = ?",
        [(webhook_id.bytes, each.bytes) for each in notifications],
    )


def give_up_aged(
    connection: sqlite3.Connection, webhook_id: uuid.UUID, until: datetime, limit: int
) -> int:
    """Turn up to `limit` notifications that wait since then or longer into dead letters."""
    moment = to_microseconds(until)
    return connection.execute(
        "UPDATE outbox SET is_dead = 1 WHERE number IN"
        " (SELECT number FROM outbox WHERE webhook_id = ? AND is_dead = 0 AND created_at <= ?"
        # Null unless it was queued again.
        " AND ifnull(json_extract(CAST(body AS TEXT), '$.retried_at'), created_at) <= ?"
        " ORDER BY number LIMIT ?)",
        (webhook_id.bytes, moment, moment, limit),
    ).rowcount


def retry_dead(connection: sqlite3.Connection, webhook_id: uuid.UUID, now: datetime) -> int:
    dead = connection.execute(
        "SELECT number, body FROM outbox WHERE webhook_id = ? AND is_dead = 1", (webhook_id.bytes,)
    ).fetchall()
    connection.executemany(
        "UPDATE outbox SET is_dead = 0, body = ? WHERE number = ?",
        [(orjson.dumps(retry_record(orjson.loads(body), now)), number) for number, body in dead],
    )
    return len(dead)


def prune_outbox(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` notifications from before that moment, sent or not; return the number.

    The oldest are deleted first.
    """
    return connection.execute(
        "DELETE FROM outbox WHERE number IN"
        " (SELECT number FROM outbox WHERE created_at < ? ORDER BY created_at LIMIT ?)",
        (to_microseconds(before), limit),
    ).rowcount
