"""What the service needs of a store to notify: webhooks, an outbox for each, and leases.

Where a repository has webhooks, `Writer.refresh_tests`, `add_quarantine` and the rules of automatic
quarantine write into the outbox what `indexing.notifications.rules` tells. In the embedded store
that is part of the change. In a cluster it is done again after a kill, with the same ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from indexing.models.notifications import Notification, OutboxCount, Webhook
from indexing.names import RepositoryName


class NotificationStore(Protocol):
    """Webhooks and their outboxes; an outbox is first in, first out."""

    async def add_webhook(self, webhook: Webhook) -> None:
        """Store a new webhook, and register its repository.

        Raises:
            TooManyWebhooksError: the repository has `MAX_WEBHOOKS` already.
        """

    async def list_webhooks(self, repository: RepositoryName | None = None) -> Sequence[Webhook]:
        """List the webhooks of one repository, or all of them, oldest first."""

    async def remove_webhook(self, repository: RepositoryName, webhook_id: uuid.UUID) -> bool:
        """Remove a webhook with its outbox; return false if the repository has none of that id."""

    async def find_waiting(self) -> Collection[uuid.UUID]:
        """Return the webhooks for which notifications wait, at most 10,000 of them."""

    async def list_outbox(self, webhook_id: uuid.UUID, limit: int) -> Sequence[Notification]:
        """Return the notifications that wait for longest, in their order."""

    async def count_outbox(self, webhook_id: uuid.UUID) -> OutboxCount:
        """Count the notifications that wait, and those that were given up."""

    async def remove_sent(
        self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
    ) -> None:
        """Remove notifications that were sent; every later `list_outbox` lacks them."""

    async def give_up(self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]) -> None:
        """Keep notifications as dead letters: they wait no more, until `retry_dead`."""

    async def retry_dead(self, webhook_id: uuid.UUID) -> int:
        """Let the dead letters of a webhook wait again; return their number."""

    async def notice_expiring(self, now: datetime) -> int:
        """Write notifications of quarantines that expire soon, each once; return their number."""

    async def hold_lease(self, name: str, owner: str, now: datetime, until: datetime) -> bool:
        """Take a lease, or extend one's own; return false while another owner holds it.

        A lease that lasts for more than an hour from now comes from a wrong clock and is void.
        """

    async def release_lease(self, name: str, owner: str) -> None:
        """Give a lease up, if that owner holds it."""
