"""Notifications, and what webhooks were notified of, survive being stored."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
from hypothesis import given
from hypothesis import strategies as st

from indexing.models.notifications import Notification, NotificationType, QuarantineNotice
from indexing.models.quarantines import QuarantineSource
from indexing.models.tests import HealthStatus
from indexing.notifications.records import (
    from_record,
    noticed_from_record,
    noticed_to_record,
    retry_record,
    to_record,
)
from indexing.notifications.rules import Noticed, Pending

MOMENTS = st.datetimes(timezones=st.just(UTC))
STATUSES = st.sampled_from(HealthStatus)
NOTIFICATIONS = st.builds(
    Notification,
    st.uuids(),
    st.sampled_from(NotificationType),
    MOMENTS,
    st.uuids(),
    st.text(),
    st.none() | STATUSES,
    st.none()
    | st.builds(
        QuarantineNotice,
        st.uuids(),
        st.text(),
        st.sampled_from(QuarantineSource),
        st.none() | st.text(),
        st.none() | MOMENTS,
    ),
)
NOTICED = st.builds(
    Noticed,
    STATUSES,
    MOMENTS,
    st.none() | MOMENTS,
    st.integers(0, 2**31),
    st.none() | MOMENTS,
    st.none() | st.builds(Pending, STATUSES, MOMENTS),
)


def stored(record: object) -> dict[str, object]:
    read: dict[str, object] = orjson.loads(orjson.dumps(record))
    return read


@given(NOTIFICATIONS)
def test_a_notification_survives_being_stored(notification: Notification) -> None:
    assert from_record(stored(to_record(notification))) == notification


@given(NOTIFICATIONS, MOMENTS)
def test_a_notification_that_is_queued_again_keeps_all_but_the_time_it_waits(
    notification: Notification, now: datetime
) -> None:
    again = from_record(stored(retry_record(to_record(notification), now)))
    assert again.waits_since == now
    assert to_record(again) == to_record(notification)


@given(NOTICED)
def test_what_webhooks_were_notified_of_survives_being_stored(noticed: Noticed) -> None:
    assert noticed_from_record(stored(noticed_to_record(noticed))) == noticed
