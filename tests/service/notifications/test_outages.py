"""What the log has of an outage of the store, which the sender looks at every few seconds."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Collection

import pytest

from indexing.errors import StoreUnavailableError
from indexing.store.interface import Store
from service.notifications import sender as sender_module
from service.notifications.sender import NotificationSender
from tests.service.front_door import Clock
from tests.service.notifications.scripted import LOOK, Scripted, add_webhook, break_tests
from tests.waiting import until


class Looks:
    """Looks at a store, which can be made to fail."""

    def __init__(self, store: Store) -> None:
        self.is_down = False
        self.is_mistaken = False
        self.count = 0
        self._find_waiting = store.find_waiting

    async def find_waiting(self) -> Collection[uuid.UUID]:
        self.count += 1
        if self.is_down:
            raise StoreUnavailableError("down")
        if self.is_mistaken:
            raise ArithmeticError("a mistake")
        return await self._find_waiting()

    async def wait_for_three(self) -> None:
        aim = self.count + 3
        await until(lambda: self.count >= aim)


async def test_an_outage_of_the_store_is_one_warning_and_one_line_at_its_end(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sender_module, "LOOK_SECONDS", 0.001)
    caplog.set_level(logging.INFO, logger=sender_module.__name__)
    looks = Looks(store)
    monkeypatch.setattr(store, "find_waiting", looks.find_waiting)
    running = asyncio.create_task(NotificationSender(store, Scripted(), clock=Clock()).run())
    for is_down in (False, True, False, True, False):
        looks.is_down = is_down
        await looks.wait_for_three()
    running.cancel()
    await asyncio.wait([running])
    lines = [each for each in caplog.records if each.name == sender_module.__name__]
    assert [(each.levelno, each.getMessage()) for each in lines] == [
        (logging.WARNING, "notifications cannot be sent"),
        (logging.INFO, "notifications can be sent again"),
    ] * 2


async def test_a_store_that_refuses_to_remove_what_was_sent_repeats_no_message(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=sender_module.__name__)
    webhook = await add_webhook(store)
    await break_tests(store, ["hinge", "door"])
    receiver, clock = Scripted(), Clock()
    sender = NotificationSender(store, receiver, clock=clock)

    async def refuse(*_: object) -> None:
        raise StoreUnavailableError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(store, "remove_sent", refuse)
        for _ in range(4):
            await sender._try_to_look()
            clock.now += LOOK
    await sender._try_to_look()
    assert len(receiver.taken) == 2
    assert (await store.count_outbox(webhook.id)).waiting == 0
    lines = [each.getMessage() for each in caplog.records if each.name == sender_module.__name__]
    assert lines == ["notifications cannot be sent", "notifications can be sent again"]


async def test_the_sender_goes_on_after_an_unexpected_error(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sender_module, "LOOK_SECONDS", 0.001)
    looks = Looks(store)
    looks.is_mistaken = True
    monkeypatch.setattr(store, "find_waiting", looks.find_waiting)
    running = asyncio.create_task(NotificationSender(store, Scripted(), clock=Clock()).run())
    await looks.wait_for_three()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert "unhandled error in the sender of notifications" in caplog.text
    assert "a mistake" in caplog.text
