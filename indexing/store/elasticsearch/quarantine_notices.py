"""Notifies webhooks of quarantines that began or expire soon.

A slot records what webhooks were notified of. If the process is killed before that, the next
attempt makes the same notification with the same id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from indexing.models.notifications import Notification, NotificationType
from indexing.models.quarantines import (
    ChangeAction,
    Quarantine,
    QuarantineChange,
    QuarantineKey,
)
from indexing.names import RepositoryName
from indexing.notifications.rules import (
    EXPIRING_WITHIN,
    Subscription,
    is_expiring,
    is_quiet,
    notice_quarantine,
)
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.outbox import enqueue
from indexing.store.elasticsearch.quarantine_slots import QuarantineSlot, slot_of_hit, writing
from indexing.store.elasticsearch.repositories import (
    document_routed,
    make_known,
    stored_of,
)
from indexing.timestamps import to_microseconds

_ROWS_A_PAGE: Final = 500


async def notify_quarantined(
    cluster: Cluster, slots: Sequence[QuarantineSlot]
) -> Mapping[str, datetime]:
    """Notify webhooks of quarantines that began, according to the unlisted changes of the slots.

    Returns the time of the notification by slot id.
    """
    begun = [(slot, change) for slot in slots for change in _find_begun(slot)]
    if not begun:
        return {}
    subscriptions = await _read_subscriptions(cluster, {slot.routing for slot, _ in begun})
    notified: dict[str, datetime] = {}
    notifications: list[tuple[Subscription, Notification]] = []
    for slot, change in begun:
        subscription = subscriptions.get(slot.routing)
        at = change.key.at
        if subscription is None or is_quiet(notified.get(slot.id, slot.notified_at), at):
            continue
        kind, quarantine = NotificationType.QUARANTINED, _quarantine_of(slot, change)
        notifications.append((subscription, notice_quarantine(kind, quarantine, at, slot.test_id)))
        notified[slot.id] = at
    if notifications:
        await enqueue(cluster, notifications)
    return notified


async def notify_expiring(cluster: Cluster, repository: RepositoryName, now: datetime) -> int:
    """Notify webhooks of the repository's quarantines that expire soon; return their number."""
    subscription = (await make_known(cluster, repository)).subscription
    if subscription is None:
        return 0
    routing = routing_of(repository)
    soon = {"gt": to_microseconds(now), "lte": to_microseconds(now + EXPIRING_WITHIN)}
    filters: list[dict[str, Any]] = [
        {"term": {"repository_id": routing}},
        {"exists": {"field": "quarantine_id"}},
        {"range": {"expires_at": soon}},
    ]
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"expires_at": "asc"}, {"quarantine_id": "asc"}],
        "seq_no_primary_term": True,
    }
    count = 0
    async for hits in scan(cluster.connection, cluster.layout.quarantines, body, routing=routing):
        notified: list[QuarantineSlot] = []
        notifications: list[tuple[Subscription, Notification]] = []
        for slot in map(slot_of_hit, hits):
            record, quarantine = slot.record, slot.quarantine
            if (
                record is None
                or quarantine is None
                or record.notified_expiry == record.expires_at
                or not is_expiring(quarantine, now)
            ):
                continue
            kind = NotificationType.EXPIRING
            notification = notice_quarantine(kind, quarantine, now, slot.test_id)
            notifications.append((subscription, notification))
            notified.append(slot.holding(replace(record, notified_expiry=record.expires_at)))
        if notified:
            await enqueue(cluster, notifications)
            writes = [writing(cluster, slot) for slot in notified]
            outcomes = await bulk.send(cluster.connection, writes, visible=True)
            count += sum(outcome.done for outcome in outcomes)
    return count


def _find_begun(slot: QuarantineSlot) -> Iterator[QuarantineChange]:
    return (change for change in slot.unlisted if change.action is ChangeAction.ADDED)


def _quarantine_of(slot: QuarantineSlot, change: QuarantineChange) -> Quarantine:
    """Return the quarantine that began with that change, in its current state if in force."""
    quarantine = slot.quarantine
    if quarantine is not None and quarantine.key.id == change.quarantine_id:
        return quarantine
    return Quarantine(
        QuarantineKey(change.key.at, change.quarantine_id),
        change.test_name,
        change.reason,
        change.branch,
        change.source,
    )


async def _read_subscriptions(
    cluster: Cluster, routings: set[str]
) -> Mapping[str, Subscription | None]:
    places = [Place(cluster.layout.control, document_routed(each)) for each in routings]
    found = await cluster.connection.get_many(places, timeouts=WRITING)
    return {
        routing: None if document is None else stored_of(document).subscription
        for routing, document in zip(routings, found, strict=True)
    }
