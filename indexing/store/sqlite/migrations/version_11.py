"""Version 11: webhooks, their outboxes, and what webhooks were last notified of."""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

# outbox.number is the order of delivery; is_dead marks a dead letter. notices.about names what was
# notified: the health, or a quarantine with its branch. expiry_told is the expiry of a quarantine
# that webhooks were already notified of.
_TABLES: Final = """
CREATE TABLE webhooks (
    id BLOB PRIMARY KEY,
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    format TEXT NOT NULL,
    url TEXT NOT NULL,
    secret BLOB NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhooks_by_repository ON webhooks (repository_id, created_at);

CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id BLOB NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    notification_id BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    is_dead INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL,
    UNIQUE (webhook_id, notification_id)
);
CREATE INDEX outbox_in_order ON outbox (webhook_id, is_dead, number, created_at);
CREATE INDEX outbox_by_age ON outbox (created_at);

CREATE TABLE notices (
    test_id BLOB NOT NULL,
    about TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (test_id, about)
) WITHOUT ROWID;

ALTER TABLE quarantines ADD COLUMN expiry_told INTEGER;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
