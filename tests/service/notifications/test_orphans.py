"""Outboxes of webhooks that were removed while a refresh of Elasticsearch was notifying them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from indexing.models.notifications import OutboxCount, Webhook
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.elasticsearch.derived import notices
from indexing.store.elasticsearch.outbox import enqueue
from indexing.store.interface import Store
from service.notifications.sender import SWEEP_EVERY, NotificationSender
from tests.builders import WIDGETS, after
from tests.service.front_door import Clock
from tests.service.notifications.scripted import Scripted, add_webhook, break_tests

NOTHING = OutboxCount(0, 0, None)


@pytest.fixture
async def store(elasticsearch_place: ElasticsearchPlace) -> AsyncIterator[Store]:
    opened = await open_store(elasticsearch_place)
    yield opened
    await opened.close()


async def remove_during_refresh(
    store: Store, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Break a test, and remove the webhook just before it is notified of that."""

    async def enqueue_too_late(*arguments: Any) -> None:
        assert await store.remove_webhook(WIDGETS, webhook.id)
        await enqueue(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(f"{notices.__name__}.enqueue", enqueue_too_late)
        await break_tests(store, ["hinge"])


@pytest.mark.parametrize("has_other", [True, False])
async def test_the_outbox_of_a_removed_webhook_is_dropped(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, has_other: bool
) -> None:
    webhook = await add_webhook(store)
    other = await add_webhook(store) if has_other else None
    receiver, clock = Scripted(), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    await sender.look()
    await remove_during_refresh(store, webhook, monkeypatch)
    assert (await store.count_outbox(webhook.id)).waiting == 1
    clock.now += SWEEP_EVERY
    await sender.look()
    assert await store.count_outbox(webhook.id) == NOTHING
    assert await store.find_waiting() == set()
    # The others get theirs.
    assert receiver.names == (["hinge"] if other else [])


async def test_dead_letters_of_a_removed_webhook_are_dropped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook, other = await add_webhook(store), await add_webhook(store)
    await remove_during_refresh(store, webhook, monkeypatch)
    for each in (webhook, other):
        await store.give_up(each.id, [one.id for one in await store.list_outbox(each.id, 10)])
    sender = NotificationSender(store, Scripted(), clock=Clock(after(days=1)))
    await sender.look()
    assert await store.count_outbox(webhook.id) == NOTHING
    assert await store.count_outbox(other.id) == OutboxCount(0, 1, None)
