"""The part of the embedded store for webhooks and their outboxes.

Each method delegates to its module.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from indexing.models.notifications import Notification, OutboxCount, Webhook
from indexing.names import RepositoryName
from indexing.store.notifications import NotificationStore
from indexing.store.sqlite import leases, notices, outbox, webhooks
from indexing.store.sqlite.connections import Connections

# The number of notifications that one transaction adds or changes.
_EXPIRING_A_STEP: Final = 500
_GIVEN_UP_A_STEP: Final = 500


class SqliteNotifications(NotificationStore):
    """Implements `NotificationStore` over one SQLite file."""

    _connections: Connections

    async def add_webhook(self, webhook: Webhook) -> None:
        await self._connections.write(partial(webhooks.add_webhook, webhook=webhook))

    async def list_webhooks(self, repository: RepositoryName | None = None) -> Sequence[Webhook]:
        return await self._connections.read(partial(webhooks.list_webhooks, repository=repository))

    async def remove_webhook(self, repository: RepositoryName, webhook_id: uuid.UUID) -> bool:
        return await self._connections.write(
            partial(webhooks.remove_webhook, repository=repository, webhook_id=webhook_id)
        )

    async def drop_orphans(self) -> int:
        # The rows of an outbox go with their webhook, in one transaction.
        return 0

    async def find_waiting(self) -> Collection[uuid.UUID]:
        return await self._connections.read(outbox.find_waiting)

    async def list_outbox(self, webhook_id: uuid.UUID, limit: int) -> Sequence[Notification]:
        return await self._connections.read(
            partial(outbox.list_outbox, webhook_id=webhook_id, limit=limit)
        )

    async def count_outbox(self, webhook_id: uuid.UUID) -> OutboxCount:
        return await self._connections.read(partial(outbox.count_outbox, webhook_id=webhook_id))

    async def remove_sent(
        self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
    ) -> None:
        await self._connections.write(
            partial(outbox.remove_sent, webhook_id=webhook_id, notifications=notifications)
        )

    async def give_up(self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]) -> None:
        await self._connections.write(
            partial(outbox.give_up, webhook_id=webhook_id, notifications=notifications)
        )

    async def give_up_aged(self, webhook_id: uuid.UUID, until: datetime) -> int:
        return await self._connections.write_in_steps(
            partial(outbox.give_up_aged, webhook_id=webhook_id, until=until, limit=_GIVEN_UP_A_STEP)
        )

    async def retry_dead(self, webhook_id: uuid.UUID, now: datetime) -> int:
        return await self._connections.write(
            partial(outbox.retry_dead, webhook_id=webhook_id, now=now)
        )

    async def notice_expiring(self, now: datetime) -> int:
        return await self._connections.write_in_steps(
            partial(notices.notify_expiring, now=now, limit=_EXPIRING_A_STEP)
        )

    async def hold_lease(self, name: str, owner: str, now: datetime, until: datetime) -> bool:
        return await self._connections.write(
            partial(leases.hold_lease, name=name, owner=owner, now=now, until=until)
        )

    async def release_lease(self, name: str, owner: str) -> None:
        await self._connections.write(partial(leases.release_lease, name=name, owner=owner))
