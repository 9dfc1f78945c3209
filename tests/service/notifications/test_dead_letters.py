"""What becomes of notifications that a receiver refuses or that cannot be sent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from indexing.models.notifications import OutboxCount, WebhookFormat
from indexing.store.interface import Store
from service.notifications.delivery import Result
from service.notifications.sender import (
    BATCH,
    GIVEN_UP_AFTER,
    MAX_REFUSALS,
    NotificationSender,
)
from tests.builders import NOON, after
from tests.service.front_door import Clock
from tests.service.notifications.scripted import LOOK, Scripted, add_webhook, break_tests, pass_time


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


async def test_many_retried_dead_letters_keep_no_aged_ones_behind_them(store: Store) -> None:
    webhook = await add_webhook(store)
    # More than are read at once.
    retried = [f"test {number}" for number in range(510)]
    await break_tests(store, retried)
    dead = await store.list_outbox(webhook.id, len(retried))
    await store.give_up(webhook.id, [each.id for each in dead])
    aged = [f"aged {number}" for number in range(BATCH)]
    await break_tests(store, aged, after(hours=2))
    receiver, clock = Scripted(Result.FAILED), Clock(after(hours=25))
    await store.retry_dead(webhook.id, clock.now)
    sender = NotificationSender(store, receiver, clock=clock)
    await pass_time(sender, clock, after(hours=28), timedelta(minutes=11))
    assert await store.count_outbox(webhook.id) == OutboxCount(510, BATCH, NOON)


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
