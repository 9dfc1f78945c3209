"""The part of a store that the service needs for notifications: webhooks, outboxes and leases.

If a repository has webhooks, `Writer.refresh_tests`, `add_quarantine` and the rules of automatic
quarantine add notifications to their outboxes, as `indexing.notifications.rules` decides. In the
embedded store, that is part of the transaction of the change. In a cluster, it is repeated after a
kill, with the same ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from indexing.models.notifications import Notification, OutboxCount, Webhook
from indexing.names import RepositoryName


class NotificationStore(Protocol):
    """Webhooks, and the outbox of each, which is first in, first out."""

    async def add_webhook(self, webhook: Webhook) -> None:
        """Store a new webhook, and register its repository.

        Raises:
            TooManyWebhooksError: the repository has `MAX_WEBHOOKS` already.
        """

    async def list_webhooks(self, repository: RepositoryName | None = None) -> Sequence[Webhook]:
        """List the webhooks of one repository, or all of them, oldest first."""

    async def remove_webhook(self, repository: RepositoryName, webhook_id: uuid.UUID) -> bool:
        """Remove a webhook with its outbox; return false if the repository has none of that id."""

    async def drop_orphans(self) -> int:
        """Drop the outboxes of webhooks that do not exist; return the number of these webhooks.

        In a cluster, a refresh that began before a webhook was removed may notify it afterwards.
        """

    async def find_waiting(self) -> Collection[uuid.UUID]:
        """Return the ids of webhooks with waiting notifications, at most 10,000 of them."""

    async def list_outbox(self, webhook_id: uuid.UUID, limit: int) -> Sequence[Notification]:
        """Return the first waiting notifications of a webhook, oldest first."""

    async def count_outbox(self, webhook_id: uuid.UUID) -> OutboxCount:
        """Count the waiting notifications and the dead letters of a webhook."""

    async def remove_sent(
        self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
    ) -> None:
        """Remove notifications that were sent; every later `list_outbox` lacks them."""

    async def give_up(self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]) -> None:
        """Turn notifications into dead letters, which do not wait until `retry_dead` is called."""

    async def give_up_aged(self, webhook_id: uuid.UUID, until: datetime) -> int:
        """Turn all notifications that wait since then or longer into dead letters.

        Returns their number. Those that were queued again wait since then (`waits_since`).
        """

    async def retry_dead(self, webhook_id: uuid.UUID, now: datetime) -> int:
        """Turn the dead letters of a webhook into waiting notifications; return their number.

        Their order and `at` stay; `retried_at` is set.
        """

    async def notice_expiring(self, now: datetime) -> int:
        """Write notifications of quarantines that expire soon, each once; return their number."""

    async def hold_lease(self, name: str, owner: str, now: datetime, until: datetime) -> bool:
        """Take a lease, or extend it as its owner; return false while another owner holds it.

        A lease that lasts for more than an hour from now comes from a wrong clock and is ignored.
        """

    async def release_lease(self, name: str, owner: str) -> None:
        """Release a lease if that owner holds it."""
