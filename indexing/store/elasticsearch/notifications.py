"""The part of the store for webhooks and their outboxes; each method delegates to its module."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

from indexing.models.notifications import Notification, OutboxCount, Webhook
from indexing.names import RepositoryName
from indexing.store.elasticsearch import leases, outbox, quarantine_notices, webhooks
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.notifications import NotificationStore


class ElasticsearchNotifications(NotificationStore):
    """Implements `NotificationStore` over Elasticsearch."""

    _cluster: Cluster

    async def add_webhook(self, webhook: Webhook) -> None:
        await webhooks.add_webhook(self._cluster, webhook)

    async def list_webhooks(self, repository: RepositoryName | None = None) -> Sequence[Webhook]:
        return await webhooks.list_webhooks(self._cluster, repository)

    async def remove_webhook(self, repository: RepositoryName, webhook_id: uuid.UUID) -> bool:
        return await webhooks.remove_webhook(self._cluster, repository, webhook_id)

    async def drop_orphans(self) -> int:
        return await webhooks.drop_orphans(self._cluster)

    async def find_waiting(self) -> Collection[uuid.UUID]:
        return await outbox.find_waiting(self._cluster)

    async def list_outbox(self, webhook_id: uuid.UUID, limit: int) -> Sequence[Notification]:
        return await outbox.list_outbox(self._cluster, webhook_id, limit)

    async def count_outbox(self, webhook_id: uuid.UUID) -> OutboxCount:
        return await outbox.count_outbox(self._cluster, webhook_id)

    async def remove_sent(
        self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
    ) -> None:
        await outbox.remove_sent(self._cluster, webhook_id, notifications)

    async def give_up(self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]) -> None:
        await outbox.give_up(self._cluster, webhook_id, notifications)

    async def give_up_aged(self, webhook_id: uuid.UUID, until: datetime) -> int:
        return await outbox.give_up_aged(self._cluster, webhook_id, until)

    async def retry_dead(self, webhook_id: uuid.UUID, now: datetime) -> int:
        return await outbox.retry_dead(self._cluster, webhook_id, now)

    async def notice_expiring(self, now: datetime) -> int:
        count = 0
        names = {each.repository.key: each.repository for each in await self.list_webhooks()}
        for name in names.values():
            count += await quarantine_notices.notify_expiring(self._cluster, name, now)
        return count

    async def hold_lease(self, name: str, owner: str, now: datetime, until: datetime) -> bool:
        return await leases.hold_lease(self._cluster, name, owner, now, until)

    async def release_lease(self, name: str, owner: str) -> None:
        await leases.release_lease(self._cluster, name, owner)
