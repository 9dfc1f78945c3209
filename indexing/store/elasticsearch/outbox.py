"""Documents of the outboxes of webhooks, in the control index.

Their field `repository_id` contains the id of the webhook, because only mapped fields are
searchable.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from indexing.models.notifications import (
    MAX_FOUND,
    Notification,
    NotificationType,
    OutboxCount,
)
from indexing.notifications.records import from_record, retry_record, to_record
from indexing.notifications.rules import Subscription
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.deleting import delete_all
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.timestamps import to_microseconds

WAITING: Final = "outbox"
DEAD: Final = "dead_letter"

_ORDER_FIELDS: Final = ("created_at", "key_id")
_ORDER: Final = [{field: "asc"} for field in _ORDER_FIELDS]
_ROWS_A_PAGE: Final = 1_000


async def enqueue(
    cluster: Cluster, notifications: Sequence[tuple[Subscription, Notification]]
) -> None:
    """Add each notification to the outbox of each webhook of its subscription.

    A waiting notification is not changed. One that was sent is added again, with the same id.
    """
    operations = [
        Operation(
            "create",
            cluster.layout.control,
            _id_of(webhook, notification.id),
            None,
            {
                "kind": WAITING,
                "repository_id": webhook.hex,
                "key_id": str(notification.id),
                "created_at": _place_of(notification),
                "notification": to_record(notification),
            },
        )
        for subscription, notification in notifications
        for webhook in subscription.webhooks
    ]
    await bulk.send(cluster.connection, operations, visible=True)


def _place_of(notification: Notification) -> int:
    """Return the time by which it is sorted, in microseconds.

    A change of health comes before the quarantine that it causes in the same refresh.
    """
    is_effect = notification.type is NotificationType.QUARANTINED
    return to_microseconds(notification.at) + is_effect


async def find_waiting(cluster: Cluster) -> Collection[uuid.UUID]:
    return await _find_webhooks(cluster, [WAITING])


async def find_owners(cluster: Cluster) -> Collection[uuid.UUID]:
    """Return the ids of webhooks with notifications of any kind, even of removed webhooks."""
    return await _find_webhooks(cluster, [WAITING, DEAD])


async def _find_webhooks(cluster: Cluster, kinds: Sequence[str]) -> Collection[uuid.UUID]:
    body = {
        "size": 0,
        "query": {"terms": {"kind": kinds}},
        "aggs": {"webhooks": {"terms": {"field": "repository_id", "size": MAX_FOUND}}},
    }
    answer = await cluster.connection.search(cluster.layout.control, body)
    return {uuid.UUID(each["key"]) for each in answer["aggregations"]["webhooks"]["buckets"]}


async def list_outbox(
    cluster: Cluster, webhook_id: uuid.UUID, limit: int
) -> Sequence[Notification]:
    body = {"size": limit, "query": _query_of(WAITING, webhook_id), "sort": _ORDER}
    answer = await cluster.connection.search(cluster.layout.control, body)
    return [from_record(hit["_source"]["notification"]) for hit in answer["hits"]["hits"]]


async def count_outbox(cluster: Cluster, webhook_id: uuid.UUID) -> OutboxCount:
    control = cluster.layout.control
    oldest = await list_outbox(cluster, webhook_id, 1)
    return OutboxCount(
        await cluster.connection.count(control, _query_of(WAITING, webhook_id)),
        await cluster.connection.count(control, _query_of(DEAD, webhook_id)),
        oldest[0].at if oldest else None,
    )


async def remove_sent(
    cluster: Cluster, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
) -> None:
    operations = [
        Operation("delete", cluster.layout.control, _id_of(webhook_id, each), None)
        for each in notifications
    ]
    await bulk.send(cluster.connection, operations, visible=True, may_be_gone=True)


async def give_up(
    cluster: Cluster, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
) -> None:
    places = [Place(cluster.layout.control, _id_of(webhook_id, each)) for each in notifications]
    found = await cluster.connection.get_many(places)
    waiting = [each for each in found if each is not None]
    await _replace(cluster, waiting, [{**each.source, "kind": DEAD} for each in waiting])


async def give_up_aged(cluster: Cluster, webhook_id: uuid.UUID, until: datetime) -> int:
    query = _query_of(WAITING, webhook_id)
    # The place of a quarantine is later than its time.
    query["bool"]["filter"].append({"range": {"created_at": {"lte": to_microseconds(until) + 1}}})
    body = {
        "size": _ROWS_A_PAGE,
        "query": query,
        "sort": _ORDER,
        "seq_no_primary_term": True,
    }
    done = 0
    async for hits in scan(cluster.connection, cluster.layout.control, body):
        found = [
            Document.of(hit)
            for hit in hits
            # Only mapped fields are searchable, and the time of the retry is none.
            if from_record(hit["_source"]["notification"]).waits_since <= until
        ]
        done += await _replace(cluster, found, [{**each.source, "kind": DEAD} for each in found])
    return done


async def retry_dead(cluster: Cluster, webhook_id: uuid.UUID, now: datetime) -> int:
    body = {
        "size": _ROWS_A_PAGE,
        "query": _query_of(DEAD, webhook_id),
        "sort": _ORDER,
        "_source": False,
    }
    done = 0
    async for hits in scan(cluster.connection, cluster.layout.control, body):
        places = [Place(cluster.layout.control, hit["_id"]) for hit in hits]
        found = [each for each in await cluster.connection.get_many(places) if each is not None]
        sources = [
            {
                **each.source,
                "kind": WAITING,
                "notification": retry_record(each.source["notification"], now),
            }
            for each in found
        ]
        done += await _replace(cluster, found, sources)
    return done


async def drop_outbox_of(cluster: Cluster, webhook_id: uuid.UUID) -> None:
    """Delete all notifications of a webhook."""
    for kind in (WAITING, DEAD):
        await _delete(cluster, _query_of(kind, webhook_id))


async def prune_outbox(cluster: Cluster, before: int) -> None:
    """Delete the notifications from before that moment, in microseconds, sent or not."""
    old = {"range": {"created_at": {"lt": before}}}
    await _delete(cluster, {"bool": {"filter": [{"terms": {"kind": [WAITING, DEAD]}}, old]}})


async def _delete(cluster: Cluster, query: Mapping[str, Any]) -> None:
    await delete_all(cluster.connection, cluster.layout.control, query, _ORDER_FIELDS)


async def _replace(
    cluster: Cluster, documents: Sequence[Document], sources: Sequence[Mapping[str, Any]]
) -> int:
    """Replace documents that are still as they were read; return the number replaced."""
    operations = [
        Operation(
            "index",
            cluster.layout.control,
            document.id,
            None,
            source,
            document.version.parameters,
        )
        for document, source in zip(documents, sources, strict=True)
    ]
    outcomes = await bulk.send(cluster.connection, operations, visible=True)
    return sum(outcome.done for outcome in outcomes)


def _id_of(webhook_id: uuid.UUID, notification_id: uuid.UUID) -> str:
    return f"{WAITING}-{webhook_id.hex}-{notification_id.hex}"


def _query_of(kind: str, webhook_id: uuid.UUID) -> dict[str, Any]:
    filters = [{"term": {"kind": kind}}, {"term": {"repository_id": webhook_id.hex}}]
    return {"bool": {"filter": filters}}
