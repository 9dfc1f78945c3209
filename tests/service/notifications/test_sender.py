"""Each notification is sent once and in order, despite outages and kills, and none is lost."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from indexing.health.thresholds import BROKEN_STREAK
from indexing.models.executions import Conclusion
from indexing.models.notifications import NotificationType, OutboxCount, Webhook, WebhookFormat
from indexing.models.quarantines import QuarantineRequest
from indexing.store import open_store
from indexing.store.interface import Store
from service.config.reach import Reach
from service.notifications import sender as sender_module
from service.notifications.delivery import Attempt, Delivery, Result
from service.notifications.messages import Message
from service.notifications.sender import (
    BATCH,
    GIVEN_UP_AFTER,
    LEASE_FOR,
    LONGEST_PAUSE,
    LOOK_SECONDS,
    MAX_REFUSALS,
    TURN,
    NotificationSender,
)
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.service.front_door import Clock
from tests.service.notifications.receivers import SECRET, receiving
from tests.waiting import until

LOOK = timedelta(seconds=LOOK_SECONDS)


@dataclass
class Scripted:
    """A receiver with scripted responses, which records the messages that it accepts."""

    result: Result = Result.SENT
    # Messages that contain this text are refused.
    refused: str = ""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[Message] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)

    async def send(self, _: Webhook, message: Message, __: datetime) -> Attempt:
        self.requests.append(message)
        self.arrived.set()
        result = self.result
        if self.refused and self.refused in message.body.decode():
            result = Result.REFUSED
        if result is Result.SENT:
            self.taken.append(message)
        return Attempt(result, "scripted")

    @property
    def names(self) -> list[str]:
        return [orjson.loads(each.body)["data"]["test_name"] for each in self.taken]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.close()


async def add_webhook(
    store: Store, style: WebhookFormat = WebhookFormat.STANDARD, url: str = "https://a.example/"
) -> Webhook:
    secret = SECRET if style is WebhookFormat.STANDARD else b""
    webhook = Webhook(uuid.uuid4(), WIDGETS, style, url, secret, NOON)
    await store.add_webhook(webhook)
    return webhook


async def break_tests(store: Store, names: Sequence[str], at: datetime = NOON) -> None:
    """Make these tests broken, among others that pass: else it would be the job that failed."""
    results = [(name, Conclusion.FAILED) for name in names]
    results += [(f"sound {number}", Conclusion.PASSED) for number in range(len(names) // 2 + 1)]
    runs = {
        run: make_executions(run, results, at)
        for run in (make_run(f"{at}{n}", commit=f"{at}{n}") for n in range(BROKEN_STREAK))
    }
    await store.write_results(WIDGETS, runs)
    await store.refresh_tests(at, repository=WIDGETS)


async def pass_time(
    sender: NotificationSender, clock: Clock, until: datetime, step: timedelta = LOOK
) -> None:
    while clock.now < until:
        clock.now += step
        await sender.look()


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


async def test_notifications_become_dead_letters_after_a_day(store: Store) -> None:
    webhook = await add_webhook(store)
    old = [f"old {number}" for number in range(2 * BATCH)]
    await break_tests(store, old)
    receiver, clock = Scripted(Result.FAILED), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    step = timedelta(minutes=11)
    await pass_time(sender, clock, NOON + GIVEN_UP_AFTER - step, step)
    await break_tests(store, ["new"], clock.now)
    assert (await store.count_outbox(webhook.id)).dead == 0
    await pass_time(sender, clock, NOON + GIVEN_UP_AFTER + step, step)
    assert (await store.count_outbox(webhook.id)).dead == len(old)
    receiver.result = Result.SENT
    await pass_time(sender, clock, clock.now + step, step)
    assert receiver.names == ["new"]
    await store.retry_dead(webhook.id, clock.now)
    await pass_time(sender, clock, clock.now + step, step)
    assert sorted(receiver.names) == sorted(["new", *old])


@pytest.mark.parametrize("result", [Result.THROTTLED, Result.FAILED])
async def test_a_failure_gives_up_none_but_the_aged_notification_that_was_tried(
    store: Store, result: Result
) -> None:
    webhook = await add_webhook(store)
    # The service was stopped for two days.
    await break_tests(store, [f"test {number}" for number in range(2 * BATCH)])
    receiver, clock = Scripted(result), Clock(after(days=2))
    sender = NotificationSender(store, receiver, clock=clock)
    await sender.look()
    assert (await store.count_outbox(webhook.id)).dead == 1
    receiver.result = Result.SENT
    await pass_time(sender, clock, clock.now + 3 * LOOK)
    assert len(receiver.taken) == 2 * BATCH - 1


@pytest.mark.parametrize("style", WebhookFormat)
async def test_a_refused_message_gives_up_no_aged_notification(
    store: Store, style: WebhookFormat
) -> None:
    webhook = await add_webhook(store, style)
    await break_tests(store, [f"test {number}" for number in range(2 * BATCH)])
    receiver, clock = Scripted(Result.REFUSED), Clock(after(days=2))
    await NotificationSender(store, receiver, clock=clock).look()
    assert len(receiver.requests) == 1
    assert (await store.count_outbox(webhook.id)).dead == 0


async def test_a_receiver_that_refuses_everything_has_no_growing_backlog(store: Store) -> None:
    webhook = await add_webhook(store)
    names = [f"test {number}" for number in range(3 * BATCH)]
    await break_tests(store, names)
    clock = Clock()
    sender = NotificationSender(store, Scripted(Result.REFUSED), clock=clock)
    # Each of them is refused three times, after pauses of at most 20 seconds.
    await pass_time(sender, clock, clock.now + len(names) * timedelta(minutes=1))
    assert await store.count_outbox(webhook.id) == OutboxCount(0, len(names), None)


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


async def test_dead_letters_that_are_retried_wait_for_another_day(store: Store) -> None:
    webhook = await add_webhook(store)
    names = [f"test {number}" for number in range(BATCH)]
    await break_tests(store, names)
    waiting = await store.list_outbox(webhook.id, 100)
    await store.give_up(webhook.id, [each.id for each in waiting])
    receiver, clock = Scripted(Result.FAILED), Clock(after(days=2))
    await store.retry_dead(webhook.id, clock.now)
    sender = NotificationSender(store, receiver, clock=clock)
    step = timedelta(minutes=11)
    await pass_time(sender, clock, clock.now + GIVEN_UP_AFTER - step, step)
    assert (await store.count_outbox(webhook.id)).dead == 0
    receiver.result = Result.SENT
    await pass_time(sender, clock, clock.now + step, step)
    assert sorted(receiver.names) == sorted(names)


@pytest.mark.parametrize("style", WebhookFormat)
async def test_one_refused_message_holds_the_others_up_for_a_minute_only(
    store: Store, style: WebhookFormat
) -> None:
    webhook = await add_webhook(store, style)
    await break_tests(store, [f"test {number}" for number in range(2 * BATCH)])
    poison = (await store.list_outbox(webhook.id, 100))[BATCH // 2]
    receiver, clock = Scripted(refused=f"{poison.test_name}`"), Clock()
    if style is WebhookFormat.STANDARD:
        receiver.refused = f'{poison.test_name}"'
    sender = NotificationSender(store, receiver, clock=clock)
    await pass_time(sender, clock, after(minutes=1))
    assert await store.count_outbox(webhook.id) == OutboxCount(0, 1, None)
    told = "".join(each.body.decode() for each in receiver.taken)
    assert all(told.count(f"test {number}`") <= 1 for number in range(2 * BATCH))
    alone = [each for each in receiver.requests if receiver.refused in each.body.decode()]
    assert len(alone) <= MAX_REFUSALS + 1


async def test_the_refusals_of_one_message_do_not_count_for_the_next(store: Store) -> None:
    webhook = await add_webhook(store)
    await break_tests(store, ["old"])
    receiver, clock = Scripted(Result.REFUSED), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    while len(receiver.requests) < MAX_REFUSALS - 1:
        await pass_time(sender, clock, clock.now + LOOK)
    # It waits until it is too old.
    receiver.result = Result.FAILED
    await break_tests(store, ["new"], after(days=1))
    clock.now = after(days=1, minutes=1)
    await pass_time(sender, clock, clock.now + LOOK)
    assert (await store.count_outbox(webhook.id)).dead == 1
    receiver.result = Result.REFUSED
    before = len(receiver.requests)
    while len(receiver.requests) == before:
        await pass_time(sender, clock, clock.now + LOOK)
    assert (await store.count_outbox(webhook.id)).dead == 1


@dataclass
class Slow(Scripted):
    """Receivers of which one does not respond, until `released` is set."""

    slow: Webhook | None = None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    receivers: list[uuid.UUID] = field(default_factory=list)

    async def send(self, webhook: Webhook, message: Message, now: datetime) -> Attempt:
        self.receivers.append(webhook.id)
        if webhook == self.slow:
            await self.released.wait()
        return await super().send(webhook, message, now)


async def test_a_slow_receiver_delays_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "LOOK_SECONDS", 0.01)
    slow, quick = await add_webhook(store), await add_webhook(store)
    receivers, clock = Slow(slow=slow), Clock()
    running = asyncio.create_task(NotificationSender(store, receivers, clock=clock).run())
    await break_tests(store, ["hinge"])
    await until(lambda: len(receivers.receivers) == 2)
    # What comes after it began to wait arrives too, also what the sender itself looks for.
    request = QuarantineRequest("hinge", "it sticks", expires_at=after(days=2))
    await store.add_quarantine(WIDGETS, request, NOON)
    await until(lambda: len(receivers.taken) == 2)
    clock.now = after(days=1, hours=1)
    await until(lambda: len(receivers.taken) == 3)
    assert receivers.receivers.count(slow.id) == 1
    receivers.slow = None
    receivers.released.set()
    await until(lambda: len(receivers.taken) == 6)
    assert receivers.receivers.count(quick.id) == 3
    running.cancel()
    await asyncio.wait([running])


async def test_webhooks_take_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "AT_ONCE", 1)
    for _ in range(2):
        await add_webhook(store)
    await break_tests(store, ["hinge", "door"])
    clock = Clock()

    class Dawdling(Slow):
        async def send(self, webhook: Webhook, message: Message, now: datetime) -> Attempt:
            clock.now += TURN
            return await super().send(webhook, message, now)

    receivers = Dawdling()
    await NotificationSender(store, receivers, clock=clock).look()
    first, second = receivers.receivers[:2]
    assert receivers.receivers == [first, second, first, second]
    assert first != second


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
