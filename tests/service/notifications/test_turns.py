"""Webhooks take turns, and a slow receiver delays no others."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from indexing.models.notifications import Webhook
from indexing.models.quarantines import QuarantineRequest
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.notifications import sender as sender_module
from service.notifications.delivery import Attempt
from service.notifications.messages import Message
from service.notifications.sender import AT_ONCE, AT_ONCE_PER_OWNER, TURN, NotificationSender
from tests.builders import FOREIGN, GADGETS, NOON, WIDGETS, after
from tests.service.front_door import Clock
from tests.service.notifications.scripted import Slow, add_webhook, break_tests
from tests.waiting import until


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


async def test_the_slow_receivers_of_one_owner_delay_no_other_owner(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "LOOK_SECONDS", 0.01)
    hanging = [GADGETS, *(RepositoryName(GADGETS.owner, f"g{n}") for n in range(AT_ONCE))]
    for repository in hanging:
        await add_webhook(store, repository=repository)
        await break_tests(store, ["hinge"], repository=repository)
    quick = await add_webhook(store, repository=FOREIGN)

    class Hanging(Slow):
        async def send(self, webhook: Webhook, message: Message, now: datetime) -> Attempt:
            self.slow = None if webhook == quick else webhook
            return await super().send(webhook, message, now)

    receivers = Hanging()
    running = asyncio.create_task(NotificationSender(store, receivers, clock=Clock()).run())
    await until(lambda: len(receivers.receivers) == AT_ONCE_PER_OWNER)
    await break_tests(store, ["door"], repository=FOREIGN)
    await until(lambda: receivers.names == ["door"])
    running.cancel()
    await asyncio.wait([running])
