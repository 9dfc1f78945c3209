"""Decides of which changes webhooks are notified, and how often. Pure.

A flapping test causes one notification a day. A change that is suppressed now is notified with the
test's next results after that day, if it is still true then.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from indexing.identifiers import derive_notification_id
from indexing.models.notifications import Notification, NotificationType, QuarantineNotice
from indexing.models.quarantines import Quarantine
from indexing.models.tests import HealthStatus

# Within this time after a notification about the health of a test, or about its quarantine, no
# second one about the same is sent.
QUIET: Final = timedelta(days=1)
# By how much the clocks of two processes may differ.
CLOCKS_DIFFER: Final = timedelta(minutes=5)
# How long before the expiry of a quarantine webhooks are notified of it.
EXPIRING_WITHIN: Final = timedelta(days=1)

_SOUND: Final = frozenset({HealthStatus.HEALTHY, HealthStatus.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Subscription:
    """The webhooks of a repository.

    `since` identifies the subscription. A webhook that is removed leaves it to the others.
    """

    webhooks: tuple[uuid.UUID, ...]
    since: datetime


@dataclass(frozen=True, slots=True)
class Pending:
    """A notification of that health at that time, which may or may not be in the outboxes."""

    status: HealthStatus
    at: datetime


@dataclass(frozen=True, slots=True)
class Noticed:
    """The health of a test in its last notification, for one subscription.

    `since` identifies the subscription. `at` is the time of the last notification, None if there
    was none yet. `count` is the number of notifications. `began` is when this record began, None
    for one of an earlier release: a test that is forgotten and comes back counts from 0 again.
    `pending` is the next notification, if it is written after the record.
    """

    status: HealthStatus
    since: datetime
    at: datetime | None = None
    count: int = 0
    began: datetime | None = None
    pending: Pending | None = None

    def after_pending(self) -> Noticed:
        """Return the record after the pending notification; itself if none is pending."""
        if self.pending is None:
            return self
        status, at = self.pending.status, self.pending.at
        return replace(self, status=status, at=at, count=self.count + 1, pending=None)


def noticed_by(
    subscription: Subscription, stored: Noticed | None, before: HealthStatus, now: datetime
) -> Noticed:
    """Return the record for the subscription; without a stored one, it begins with `before`."""
    if stored is not None and stored.since == subscription.since:
        return stored
    return Noticed(before, subscription.since, began=now)


def type_of_change(before: HealthStatus, after: HealthStatus) -> NotificationType | None:
    """Return the type of notification for a change of health; None if it causes none."""
    if after is before or after is HealthStatus.UNKNOWN:
        return None
    if after is HealthStatus.HEALTHY:
        return None if before in _SOUND else NotificationType.RECOVERED
    return NotificationType.FLAKY if after is HealthStatus.FLAKY else NotificationType.BROKEN


def is_quiet(last: datetime | None, now: datetime) -> bool:
    """Return whether the last notification is so recent that another one is suppressed.

    One that is dated far ahead comes from a wrong clock, and would suppress others until then.
    """
    return last is not None and -CLOCKS_DIFFER < now - last < QUIET


def plan_notification(noticed: Noticed, status: HealthStatus, now: datetime) -> Noticed:
    """Return the record of a test with that health; with a pending notification if one is due."""
    if type_of_change(noticed.status, status) is None or is_quiet(noticed.at, now):
        return noticed
    return replace(noticed, pending=Pending(status, now))


def pending_notification(
    noticed: Noticed, test_id: uuid.UUID, test_name: str
) -> Notification | None:
    """Return the pending notification of a test; None if none is."""
    pending = noticed.pending
    kind = None if pending is None else type_of_change(noticed.status, pending.status)
    if pending is None or kind is None:
        return None
    # Derived from the record, so one that is repeated has the same id.
    began = () if noticed.began is None else (noticed.began.isoformat(),)
    parts = (noticed.since.isoformat(), str(noticed.count), *began)
    return Notification(
        derive_notification_id(test_id, kind.value, *parts),
        kind,
        pending.at,
        test_id,
        test_name,
        previous=noticed.status,
    )


def notice_quarantine(
    kind: NotificationType, quarantine: Quarantine, at: datetime, test_id: uuid.UUID
) -> Notification:
    """Return the notification of a quarantine that began at that time, or is about to expire."""
    expires_at = quarantine.expires_at
    # The expiry is part of the id, so that a new expiry of the same quarantine is notified again.
    notified_end = expires_at if kind is NotificationType.EXPIRING else None
    until = "" if notified_end is None else notified_end.isoformat()
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
    """Return whether webhooks should be notified now that a quarantine in force will expire.

    This is never so for a quarantine that lasts only for `EXPIRING_WITHIN` in total, because its
    beginning was notified.
    """
    expires_at = quarantine.expires_at
    return (
        expires_at is not None
        and now < expires_at <= now + EXPIRING_WITHIN
        and expires_at - quarantine.key.created_at > EXPIRING_WITHIN
    )
