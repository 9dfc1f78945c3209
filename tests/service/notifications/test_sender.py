"""Each notification is sent once and in order, despite outages and kills, and none is lost."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from collections.abc import Collection
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from aiohttp import web

from indexing.errors import StoreUnavailableError
from indexing.models.notifications import NotificationType, OutboxCount, Webhook, WebhookFormat
from indexing.models.quarantines import QuarantineRequest
from indexing.store.interface import Store
from service.config.reach import Reach
from service.notifications import sender as sender_module
from service.notifications.delivery import Attempt, Delivery, Result
from service.notifications.messages import Message
from service.notifications.sender import (
    BATCH,
    LEASE_FOR,
    LONGEST_PAUSE,
    NotificationSender,
)
from tests.builders import NOON, WIDGETS, after
from tests.service.front_door import Clock
from tests.service.notifications.receivers import receiving
from tests.service.notifications.scripted import (
    LOOK,
    Scripted,
    Slow,
    add_webhook,
    break_tests,
    pass_time,
)
from tests.service.processes import TIMEOUT
from tests.waiting import until


async def test_notifications_are_sent_once_and_in_order(store: Store) -> None:
    webhook = await add_webhook(store)
    names = [f"test {number}" for number in range(3 * BATCH + 1)]
    await break_tests(store, names)
    waiting = await store.list_outbox(webhook.id, 1_000)
    receiver, clock = Scripted(), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    for _ in range(2):
        await sender.look()
    assert receiver.names == [each.test_name for each in waiting]
    assert sorted(receiver.names) == sorted(names)
    assert [each.id for each in receiver.taken] == [str(each.id) for each in waiting]


async def test_a_webhook_that_is_removed_gets_at_most_one_more_message(store: Store) -> None:
    webhook = await add_webhook(store)
    await break_tests(store, [f"test {number}" for number in range(BATCH)])
    clock = Clock()

    class Slow(Scripted):
        async def send(self, to: Webhook, message: Message, now: datetime) -> Attempt:
            if len(self.taken) == 2:
                await store.remove_webhook(WIDGETS, webhook.id)
            clock.now += timedelta(milliseconds=500)
            return await super().send(to, message, now)

    receiver = Slow()
    await NotificationSender(store, receiver, clock=clock).look()
    assert len(receiver.taken) in (3, 4)


@pytest.mark.slow
async def test_ten_thousand_changes_survive_an_outage_of_an_hour(store: Store) -> None:
    async with receiving() as receiver, AsyncExitStack() as stack:
        webhook = await add_webhook(store, url=receiver.url)
        stack.push_async_callback((client := Delivery.open(Reach.ANY)).close)
        clock = Clock()
        sender = NotificationSender(store, client, clock=clock)
        receiver.answer = lambda: web.Response(status=503)
        # The changes happen while the receiver is down.
        for batch in range(10):
            names = [f"test {batch * 1_000 + number}" for number in range(1_000)]
            await break_tests(store, names, after(minutes=6 * batch))
            await pass_time(sender, clock, after(minutes=6 * (batch + 1)))
        assert receiver.taken == []
        # Not every check of the outboxes is an attempt.
        assert len(receiver.requests) < 30
        count = await store.count_outbox(webhook.id)
        assert (count.waiting, count.dead) == (10_000, 0)
        waiting = [str(each.id) for each in await store.list_outbox(webhook.id, 10_000)]
        receiver.answer = web.Response
        await pass_time(sender, clock, clock.now + LONGEST_PAUSE)
    assert [message_id for message_id, _ in receiver.taken] == waiting
    assert {body["data"]["test_name"] for _, body in receiver.taken} == {
        f"test {number}" for number in range(10_000)
    }
    assert await store.count_outbox(webhook.id) == OutboxCount(0, 0, None)


class DiesBeforeMark:
    """A store whose process is usually killed before it removes sent notifications."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._calls = itertools.count(1)

    async def remove_sent(
        self, webhook_id: uuid.UUID, notifications: Collection[uuid.UUID]
    ) -> None:
        if next(self._calls) % 3:
            raise KilledError
        await self._store.remove_sent(webhook_id, notifications)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class KilledError(BaseException):
    """The process was killed."""


async def test_a_kill_before_the_mark_repeats_messages_with_their_ids(store: Store) -> None:
    webhook = await add_webhook(store)
    await break_tests(store, [f"test {number}" for number in range(5 * BATCH)])
    waiting = [str(each.id) for each in await store.list_outbox(webhook.id, 1_000)]
    receiver, clock = Scripted(), Clock()
    dying = DiesBeforeMark(store)
    while (await store.count_outbox(webhook.id)).waiting:
        # The lease of the dead process has to end first.
        clock.now += LEASE_FOR
        sender = NotificationSender(dying, receiver, clock=clock)
        try:
            await sender.look()
        except KilledError:
            continue
    taken = [each.id for each in receiver.taken]
    assert len(taken) > len(waiting)
    # A receiver that drops the ids that it has already sees each once, and in order.
    assert list(dict.fromkeys(taken)) == waiting


async def test_the_first_retry_comes_after_five_to_ten_seconds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The shortest pause that the jitter allows.
    monkeypatch.setattr(random, "uniform", min)
    await add_webhook(store)
    await break_tests(store, ["hinge"])
    receiver, clock = Scripted(Result.FAILED), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    await sender.look()
    began = clock.now
    await pass_time(sender, clock, began + timedelta(seconds=4), timedelta(seconds=1))
    assert len(receiver.requests) == 1
    await pass_time(sender, clock, began + timedelta(seconds=9), LOOK)
    assert len(receiver.requests) == 2


async def test_one_process_sends_at_a_time(store: Store) -> None:
    await add_webhook(store)
    await break_tests(store, ["hinge", "door"])
    receiver, clock = Scripted(Result.FAILED), Clock()
    first, second = (NotificationSender(store, receiver, clock=clock) for _ in range(2))
    await first.look()
    receiver.result = Result.SENT
    clock.now += timedelta(seconds=6)
    await second.look()
    assert len(receiver.requests) == 1
    await first.look()
    assert len(receiver.taken) == 2
    # The next one goes on when the first has not been seen for the time of its lease.
    await break_tests(store, ["wall"], after(hours=1))
    clock.now += LEASE_FOR
    await second.look()
    assert len(receiver.taken) == 3


async def test_an_unexpected_error_of_one_webhook_ends_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, _ = await add_webhook(store), await add_webhook(store)
    receiver, send = Scripted(), Scripted.send

    async def fail(self: Scripted, webhook: Webhook, *rest: Any) -> Attempt:
        if webhook == broken:
            raise LookupError("unforeseen")
        return await send(self, webhook, *rest)

    monkeypatch.setattr(Scripted, "send", fail)
    await break_tests(store, ["hinge"])
    sender, clock = NotificationSender(store, receiver, clock=Clock()), Clock()
    for _ in range(2):
        await sender.look()
    await break_tests(store, ["latch"], after(days=1))
    await pass_time(sender, clock, clock.now + 2 * LOOK)
    assert receiver.names == ["hinge", "latch"]
    assert "unforeseen" in caplog.text


async def test_slack_gets_many_lines_in_one_message(store: Store) -> None:
    await add_webhook(store, WebhookFormat.SLACK)
    await break_tests(store, [f"test {number}" for number in range(BATCH + 5)])
    receiver = Scripted()
    await NotificationSender(store, receiver, clock=Clock()).look()
    lines = [len(orjson.loads(each.body)["text"].split("\n")) for each in receiver.taken]
    assert lines == [BATCH, 5]


async def test_the_sender_looks_for_quarantines_that_expire(store: Store) -> None:
    await add_webhook(store)
    request = QuarantineRequest("hinge", "it sticks", expires_at=after(days=3))
    await store.add_quarantine(WIDGETS, request, NOON)
    receiver, clock = Scripted(), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    await pass_time(sender, clock, after(days=3), timedelta(hours=1))
    types = [orjson.loads(each.body)["type"] for each in receiver.taken]
    assert types == [NotificationType.QUARANTINED, NotificationType.EXPIRING]


async def test_without_webhooks_nothing_is_written(store: Store) -> None:
    clock = Clock()
    sender = NotificationSender(store, Scripted(), clock=clock)
    before = store.revision()
    await pass_time(sender, clock, after(hours=1))
    # A lease would be a commit, after which other processes drop their caches.
    assert await store.hold_lease("notifications", "another", clock.now, clock.now)
    assert before is not None


async def test_a_stopped_sender_gives_its_lease_up(store: Store) -> None:
    await add_webhook(store)
    await break_tests(store, ["hinge"])
    receiver, clock = Slow(), Clock()
    receiver.slow = await add_webhook(store)
    await break_tests(store, ["door"], after(hours=1))
    running = asyncio.create_task(NotificationSender(store, receiver, clock=clock).run())
    await until(lambda: len(set(receiver.receivers)) == 2)
    # Also while it waits for a response.
    running.cancel()
    await asyncio.wait([running])
    assert await store.hold_lease("notifications", "another", clock.now, after(minutes=1))


async def test_a_lease_that_is_taken_while_the_sender_ends_is_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_webhook(store)
    await break_tests(store, ["hinge"])
    hold, taken = store.hold_lease, asyncio.Event()

    async def answer_late(*about: Any) -> bool:
        await hold(*about)
        taken.set()
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(store, "hold_lease", answer_late)
    clock = Clock()
    running = asyncio.create_task(NotificationSender(store, Scripted(), clock=clock).run())
    await asyncio.wait_for(taken.wait(), TIMEOUT)
    running.cancel()
    await asyncio.wait([running])
    assert await hold("notifications", "another", clock.now, after(minutes=1))


async def test_a_store_that_is_down_at_the_end_causes_no_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_webhook(store)
    await break_tests(store, ["hinge"])
    receiver = Scripted()
    running = asyncio.create_task(NotificationSender(store, receiver, clock=Clock()).run())
    await asyncio.wait_for(receiver.arrived.wait(), TIMEOUT)

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("down")

    monkeypatch.setattr(store, "release_lease", fail)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


async def test_a_store_that_hangs_at_the_end_delays_it_by_the_limits_of_the_last_writes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "LAST_WRITE_SECONDS", 0.01)
    await add_webhook(store)
    await break_tests(store, ["hinge", "door"])
    hanging: list[str] = []

    class AnswersOne(Scripted):
        """A receiver that does not respond to the second message."""

        async def send(self, webhook: Webhook, message: Message, now: datetime) -> Attempt:
            attempt = await super().send(webhook, message, now)
            if len(self.requests) == 2:
                await asyncio.Event().wait()
            return attempt

    def hang(name: str) -> None:
        async def wait(*_: object) -> None:
            hanging.append(name)
            await asyncio.Event().wait()

        monkeypatch.setattr(store, name, wait)

    receiver = AnswersOne()
    running = asyncio.create_task(NotificationSender(store, receiver, clock=Clock()).run())
    await until(lambda: len(receiver.requests) == 2)
    for name in ("remove_sent", "release_lease"):
        hang(name)
    running.cancel()
    await asyncio.wait([running], timeout=TIMEOUT)
    assert running.cancelled()
    assert hanging == ["remove_sent", "release_lease"]
