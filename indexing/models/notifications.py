"""Webhooks of a repository, and the notifications that wait to be sent to them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from indexing.models.quarantines import QuarantineSource
from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName

# The most webhooks of one repository; each notification is stored once for each of them.
MAX_WEBHOOKS: Final = 5
# The most webhooks with waiting notifications that are found at once.
MAX_FOUND: Final = 10_000
MAX_URL_LENGTH: Final = 2_048
MIN_SECRET_BYTES: Final = 24
MAX_SECRET_BYTES: Final = 64


class WebhookFormat(StrEnum):
    """The format that a receiver expects: signed Standard Webhooks, or messages for Slack."""

    STANDARD = "standard"
    SLACK = "slack"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of the notifications of one repository.

    `url` may itself be a secret. `secret` signs the requests; it is empty for Slack.
    """

    id: uuid.UUID
    repository: RepositoryName
    format: WebhookFormat
    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    created_at: datetime


class NotificationType(StrEnum):
    """What happened to a test."""

    FLAKY = "test.flaky"
    BROKEN = "test.broken"
    RECOVERED = "test.recovered"
    QUARANTINED = "quarantine.added"
    EXPIRING = "quarantine.expiring"


@dataclass(frozen=True, slots=True)
class QuarantineNotice:
    """The quarantine that a notification is about."""

    id: uuid.UUID
    reason: str
    source: QuarantineSource
    branch: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """An event of one test that webhooks are notified of; `at` is when the service noticed it.

    The id is derived, so the same notification always has the same id. `previous` is None unless
    the test's health changed. `quarantine` is None unless a quarantine began or is about to expire.
    `retried_at` is when an operator last queued it again as a dead letter.
    """

    id: uuid.UUID
    type: NotificationType
    at: datetime
    test_id: uuid.UUID
    test_name: str
    previous: HealthStatus | None = None
    quarantine: QuarantineNotice | None = None
    retried_at: datetime | None = None

    @property
    def waits_since(self) -> datetime:
        """The time since when it is to be sent."""
        return self.at if self.retried_at is None else self.retried_at


@dataclass(frozen=True, slots=True)
class OutboxCount:
    """The number of waiting notifications and dead letters of one webhook.

    `oldest_at` is the time of the oldest waiting one.
    """

    waiting: int
    dead: int
    oldest_at: datetime | None
