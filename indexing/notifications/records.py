"""Converts notifications to and from the JSON values that both stores keep. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from indexing.models.notifications import Notification, NotificationType, QuarantineNotice
from indexing.models.quarantines import QuarantineSource
from indexing.models.tests import HealthStatus
from indexing.notifications.rules import Noticed, Pending
from indexing.timestamps import (
    from_microseconds,
    microseconds_or_none,
    moment_or_none,
    to_microseconds,
)


def to_record(notification: Notification) -> dict[str, Any]:
    quarantine = notification.quarantine
    return {
        "id": str(notification.id),
        "type": notification.type.value,
        "at": to_microseconds(notification.at),
        "test_id": str(notification.test_id),
        "test_name": notification.test_name,
        "previous": None if notification.previous is None else notification.previous.value,
        "quarantine": None
        if quarantine is None
        else {
            "id": str(quarantine.id),
            "reason": quarantine.reason,
            "source": quarantine.source.value,
            "branch": quarantine.branch,
            "expires_at": microseconds_or_none(quarantine.expires_at),
        },
    }


def retry_record(record: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the record of a notification that is queued again."""
    return {**record, "retried_at": to_microseconds(now)}


def from_record(record: Mapping[str, Any]) -> Notification:
    quarantine = record["quarantine"]
    return Notification(
        uuid.UUID(record["id"]),
        NotificationType(record["type"]),
        from_microseconds(record["at"]),
        uuid.UUID(record["test_id"]),
        record["test_name"],
        None if record["previous"] is None else HealthStatus(record["previous"]),
        None
        if quarantine is None
        else QuarantineNotice(
            uuid.UUID(quarantine["id"]),
            quarantine["reason"],
            QuarantineSource(quarantine["source"]),
            quarantine["branch"],
            moment_or_none(quarantine["expires_at"]),
        ),
        # Absent unless it was queued again.
        moment_or_none(record.get("retried_at")),
    )


def noticed_to_record(noticed: Noticed) -> dict[str, Any]:
    record = {
        "status": noticed.status.value,
        "since": to_microseconds(noticed.since),
        "at": microseconds_or_none(noticed.at),
        "count": noticed.count,
        "began": microseconds_or_none(noticed.began),
    }
    pending = noticed.pending
    if pending is None:
        return record
    return {**record, "pending": [pending.status.value, to_microseconds(pending.at)]}


def noticed_from_record(record: Mapping[str, Any]) -> Noticed:
    # Absent unless one is pending.
    pending = record.get("pending")
    return Noticed(
        HealthStatus(record["status"]),
        from_microseconds(record["since"]),
        moment_or_none(record["at"]),
        record["count"],
        moment_or_none(record.get("began")),
        None
        if pending is None
        else Pending(HealthStatus(pending[0]), from_microseconds(pending[1])),
    )
