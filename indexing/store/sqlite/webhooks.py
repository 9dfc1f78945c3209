"""Rows of webhooks."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence

from indexing.errors import TooManyWebhooksError
from indexing.models.notifications import MAX_WEBHOOKS, Webhook, WebhookFormat
from indexing.names import RepositoryName
from indexing.notifications.rules import Subscription
from indexing.store.sqlite.repositories import ensure_repository, require_repository_id
from indexing.timestamps import from_microseconds, to_microseconds


def add_webhook(connection: sqlite3.Connection, webhook: Webhook) -> None:
    ensure_repository(connection, webhook.repository)
    repository_id = require_repository_id(connection, webhook.repository)
    (count,) = connection.execute(
        "SELECT count(*) FROM webhooks WHERE repository_id = ? AND id != ?",
        (repository_id, webhook.id.bytes),
    ).fetchone()
    if count >= MAX_WEBHOOKS:
        raise TooManyWebhooksError(f"the repository has {MAX_WEBHOOKS} webhooks; remove one first")
    before = find_subscription(connection, repository_id)
    connection.execute(
        "INSERT INTO webhooks (id, repository_id, format, url, secret, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (
            webhook.id.bytes,
            repository_id,
            webhook.format.value,
            webhook.url,
            webhook.secret,
            to_microseconds(webhook.created_at),
        ),
    )
    _carry_notices_over(connection, repository_id, before)


def list_webhooks(
    connection: sqlite3.Connection, repository: RepositoryName | None
) -> Sequence[Webhook]:
    within = "" if repository is None else " WHERE r.key = ?"
    rows = connection.execute(
        "SELECT w.id, r.owner, r.name, w.format, w.url, w.secret, w.created_at FROM webhooks w"
        f" JOIN repositories r ON r.id = w.repository_id{within} ORDER BY w.created_at, w.id",
        () if repository is None else (repository.key,),
    )
    return [
        Webhook(
            uuid.UUID(bytes=webhook_id),
            RepositoryName(owner, name),
            WebhookFormat(style),
            url,
            secret,
            from_microseconds(created_at),
        )
        for webhook_id, owner, name, style, url, secret, created_at in rows
    ]


def remove_webhook(
    connection: sqlite3.Connection, repository: RepositoryName, webhook_id: uuid.UUID
) -> bool:
    row = connection.execute(
        "SELECT w.repository_id FROM webhooks w JOIN repositories r ON r.id = w.repository_id"
        " WHERE w.id = ? AND r.key = ?",
        (webhook_id.bytes, repository.key),
    ).fetchone()
    if row is None:
        return False
    (repository_id,) = row
    before = find_subscription(connection, repository_id)
    connection.execute("DELETE FROM webhooks WHERE id = ?", (webhook_id.bytes,))
    _carry_notices_over(connection, repository_id, before)
    return True


def _carry_notices_over(
    connection: sqlite3.Connection, repository_id: int, before: Subscription | None
) -> None:
    """Keep what webhooks were notified of, if the time that names their subscription changed."""
    after = find_subscription(connection, repository_id)
    if before is None or after is None or before.since == after.since:
        return
    # Records about quarantines are the bare time; they name no subscription.
    connection.execute(
        "UPDATE notices"
        " SET state = CAST(json_set(CAST(state AS TEXT), '$.since', ?) AS BLOB)"
        " WHERE test_id IN (SELECT test_id FROM tests WHERE repository_id = ?)"
        " AND json_extract(CAST(state AS TEXT), '$.since') = ?",
        (to_microseconds(after.since), repository_id, to_microseconds(before.since)),
    )


def find_subscription(connection: sqlite3.Connection, repository_id: int) -> Subscription | None:
    """Return the webhooks of a repository; None if it has none."""
    rows = connection.execute(
        "SELECT id, created_at FROM webhooks WHERE repository_id = ? ORDER BY created_at, id",
        (repository_id,),
    ).fetchall()
    if not rows:
        return None
    return Subscription(
        tuple(uuid.UUID(bytes=webhook_id) for webhook_id, _ in rows), from_microseconds(rows[0][1])
    )
