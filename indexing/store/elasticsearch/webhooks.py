"""Documents of webhooks.

The document of their repository contains their ids too, so that a refresh reads them without a
search. If a call that adds a webhook is killed, the webhook may be listed but never notified; it
can be removed.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from indexing.errors import TooManyWebhooksError
from indexing.models.notifications import MAX_WEBHOOKS, Webhook, WebhookFormat
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.outbox import drop_outbox_of, find_owners
from indexing.store.elasticsearch.repositories import (
    StoredRepository,
    make_known,
    replace_webhooks,
)
from indexing.timestamps import from_microseconds, to_microseconds

KIND: Final = "webhook"

_PAGE: Final = 1_000


async def add_webhook(cluster: Cluster, webhook: Webhook) -> None:
    try:
        await _add(cluster, webhook)
    except TooManyWebhooksError:
        # Others were added at the same time. Without room, this one must not be listed.
        await _delete(cluster, webhook.id)
        raise


async def _add(cluster: Cluster, webhook: Webhook) -> None:
    stored = await make_known(cluster, webhook.repository)
    _check_room(stored, webhook)
    with suppress(ConflictError):
        # A repeated call finds its own document.
        await cluster.connection.put(
            cluster.layout.control, _id_of(webhook.id), _source_of(stored, webhook)
        )
    while webhook.id not in stored.webhooks:
        _check_room(stored, webhook)
        # An earlier time would begin a new subscription, which knows nothing of the past.
        at = max(webhook.created_at, min(stored.webhooks.values(), default=webhook.created_at))
        webhooks = {**stored.webhooks, webhook.id: at}
        with suppress(ConflictError):
            await replace_webhooks(cluster, stored, webhooks)
        stored = await make_known(cluster, webhook.repository)


async def list_webhooks(cluster: Cluster, repository: RepositoryName | None) -> Sequence[Webhook]:
    filters: list[dict[str, Any]] = [{"term": {"kind": KIND}}]
    if repository is not None:
        filters.append({"term": {"repository_id": routing_of(repository)}})
    body = {
        "size": _PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"created_at": "asc"}, {"key_id": "asc"}],
    }
    found: list[Webhook] = []
    async for hits in scan(cluster.connection, cluster.layout.control, body):
        found += [_webhook_of(hit["_source"]) for hit in hits]
    return found


async def remove_webhook(
    cluster: Cluster, repository: RepositoryName, webhook_id: uuid.UUID
) -> bool:
    document = await cluster.connection.get(cluster.layout.control, _id_of(webhook_id))
    if document is None or document.source["repository_id"] != routing_of(repository):
        return False
    stored = await make_known(cluster, repository)
    while webhook_id in stored.webhooks:
        webhooks = _without(webhook_id, stored.webhooks)
        with suppress(ConflictError):
            await replace_webhooks(cluster, stored, webhooks)
        stored = await make_known(cluster, repository)
    await _delete(cluster, webhook_id)
    await drop_outbox_of(cluster, webhook_id)
    return True


async def _delete(cluster: Cluster, webhook_id: uuid.UUID) -> None:
    deletion = Operation("delete", cluster.layout.control, _id_of(webhook_id), None)
    await bulk.send(cluster.connection, [deletion], visible=True)


async def drop_orphans(cluster: Cluster) -> int:
    """Drop the outboxes of removed webhooks, which an unfinished refresh has notified.

    A webhook's document is there before its first notification, and is read without a search.
    """
    owners = sorted(await find_owners(cluster))
    if not owners:
        return 0
    places = [Place(cluster.layout.control, _id_of(each)) for each in owners]
    found = await cluster.connection.get_many(places)
    orphans = [owner for owner, webhook in zip(owners, found, strict=True) if webhook is None]
    for each in orphans:
        await drop_outbox_of(cluster, each)
    return len(orphans)


def _without(
    webhook_id: uuid.UUID, webhooks: Mapping[uuid.UUID, datetime]
) -> Mapping[uuid.UUID, datetime]:
    """Return the others; the oldest inherits the earliest time, so the subscription continues."""
    others = {id_: at for id_, at in webhooks.items() if id_ != webhook_id}
    if others:
        others[min(others, key=lambda id_: others[id_])] = min(webhooks.values())
    return others


def _check_room(stored: StoredRepository, webhook: Webhook) -> None:
    if len(stored.webhooks.keys() - {webhook.id}) >= MAX_WEBHOOKS:
        raise TooManyWebhooksError(f"the repository has {MAX_WEBHOOKS} webhooks; remove one first")


def _id_of(webhook_id: uuid.UUID) -> str:
    return f"{KIND}:{webhook_id.hex}"


def _source_of(stored: StoredRepository, webhook: Webhook) -> dict[str, Any]:
    name = stored.repository.name
    return {
        "kind": KIND,
        "repository_id": routing_of(name),
        "key_id": str(webhook.id),
        "created_at": to_microseconds(webhook.created_at),
        "owner": name.owner,
        "name": name.name,
        "format": webhook.format.value,
        "url": webhook.url,
        "secret": base64.b64encode(webhook.secret).decode(),
    }


def _webhook_of(source: Mapping[str, Any]) -> Webhook:
    return Webhook(
        uuid.UUID(source["key_id"]),
        RepositoryName(source["owner"], source["name"]),
        WebhookFormat(source["format"]),
        source["url"],
        base64.b64decode(source["secret"]),
        from_microseconds(source["created_at"]),
    )
