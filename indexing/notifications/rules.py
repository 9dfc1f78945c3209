"""Which changes are told, and how often. Pure.

A flapping test is told of once a day. What is not told now is told with the test's next results
after that, if it still holds then.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from indexing.identifiers import derive_notification_id
from indexing.models.notifications import Notification, NotificationType, QuarantineNotice
from indexing.models.quarantines import Quarantine
from indexing.models.tests import HealthStatus

# Nothing about the health of a test, nor about its quarantine, is told twice within this time.
QUIET: Final = timedelta(days=1)
# How long before its end a quarantine is told of.
EXPIRING_WITHIN: Final = timedelta(days=1)

_SOUND: Final = frozenset({HealthStatus.HEALTHY, HealthStatus.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Subscription:
    """The webhooks of a repository; `since` is when the oldest of them was added."""

    webhooks: tuple[uuid.UUID, ...]
    since: datetime


@dataclass(frozen=True, slots=True)
class Noticed:
    """The health of a test that was told last, and when; `count` is how often it was.

    It holds for one subscription. `at` is None if nothing was told yet.
    """

    status: HealthStatus
    since: datetime
    at: datetime | None = None
    count: int = 0

    def told(self, status: HealthStatus, at: datetime) -> Noticed:
        """The same after a notification."""
        return Noticed(status, self.since, at, self.count + 1)


def noticed_by(subscription: Subscription, stored: Noticed | None, before: HealthStatus) -> Noticed:
    """What the subscription was told last; `before` is the health when it was told nothing."""
    if stored is not None and stored.since == subscription.since:
        return stored
    return Noticed(before, subscription.since)


def type_of_change(before: HealthStatus, after: HealthStatus) -> NotificationType | None:
    """What a change of health is told as, if it is told."""
    if after is before or after is HealthStatus.UNKNOWN:
        return None
    if after is HealthStatus.HEALTHY:
        return None if before in _SOUND else NotificationType.RECOVERED
    return NotificationType.FLAKY if after is HealthStatus.FLAKY else NotificationType.BROKEN


def is_quiet(last: datetime | None, now: datetime) -> bool:
    """Whether the test was told of too short a time ago."""
    return last is not None and now - last < QUIET


def notice_health(
    noticed: Noticed, status: HealthStatus, now: datetime, test_id: uuid.UUID, test_name: str
) -> Notification | None:
    """The notification that is due for a test with that health."""
    kind = type_of_change(noticed.status, status)
    if kind is None or is_quiet(noticed.at, now):
        return None
    since = noticed.since.isoformat()
    return Notification(
        derive_notification_id(test_id, kind.value, since, str(noticed.count)),
        kind,
        now,
        test_id,
        test_name,
        previous=noticed.status,
    )


def notice_quarantine(
    kind: NotificationType, quarantine: Quarantine, at: datetime, test_id: uuid.UUID
) -> Notification:
    """The notification of a quarantine that began at that time, or is about to expire."""
    expires_at = quarantine.expires_at
    # A new end of the same quarantine is told of again.
    told_end = expires_at if kind is NotificationType.EXPIRING else None
    until = "" if told_end is None else told_end.isoformat()
    key = quarantine.key
    return Notification(
        derive_notification_id(test_id, kind.value, key.id.hex, key.created_at.isoformat(), until),
        kind,
        at,
        test_id,
        quarantine.test_name,
        quarantine=QuarantineNotice(
            key.id, quarantine.reason, quarantine.source, quarantine.branch, expires_at
        ),
    )


def is_expiring(quarantine: Quarantine, now: datetime) -> bool:
    """Whether the end of a quarantine in force is to be told now.

    One that was meant to last no longer than that was told of when it began.
    """
    expires_at = quarantine.expires_at
    return (
        expires_at is not None
        and now < expires_at <= now + EXPIRING_WITHIN
        and expires_at - quarantine.key.created_at > EXPIRING_WITHIN
    )
