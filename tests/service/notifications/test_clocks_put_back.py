"""A clock that was wrong, and is put back, delays no notification and sends none twice."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from indexing.models.notifications import NotificationType
from indexing.models.quarantines import QuarantineRequest
from indexing.store.interface import Store
from service.notifications.delivery import Result
from service.notifications.sender import LONGEST_PAUSE, NotificationSender
from tests.builders import NOON, WIDGETS, after
from tests.service.front_door import Clock
from tests.service.notifications.scripted import Scripted, add_webhook, break_tests, pass_time

# By how much a clock is put back.
STEPS = (timedelta(hours=1), timedelta(days=1))


@pytest.mark.parametrize("step", STEPS)
async def test_a_receiver_that_failed_is_tried_again_after_its_pause(
    store: Store, step: timedelta
) -> None:
    await add_webhook(store)
    await break_tests(store, ["hinge"])
    receiver, clock = Scripted(Result.FAILED), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    await sender.look()
    receiver.result = Result.SENT
    clock.now -= step
    await pass_time(sender, clock, clock.now + LONGEST_PAUSE)
    assert receiver.names == ["hinge"]


async def test_a_receiver_that_works_again_does_not_wait(store: Store) -> None:
    await add_webhook(store)
    await break_tests(store, ["hinge"])
    receiver, clock = Scripted(Result.FAILED), Clock()
    sender = NotificationSender(store, receiver, clock=clock)
    for _ in range(10):
        await sender.look()
        clock.now += LONGEST_PAUSE
    receiver.result = Result.SENT
    await sender.look()
    # Back into the last pause.
    clock.now -= LONGEST_PAUSE - timedelta(seconds=1)
    await break_tests(store, ["door"], after(hours=1))
    await sender.look()
    assert receiver.names == ["hinge", "door"]


@pytest.mark.parametrize("step", STEPS)
async def test_one_process_sends_at_a_time(store: Store, step: timedelta) -> None:
    await add_webhook(store)
    await break_tests(store, ["hinge"])
    receivers, clock = (Scripted(), Scripted()), Clock()
    first, second = (NotificationSender(store, each, clock=clock) for each in receivers)
    await first.look()
    clock.now -= step
    await break_tests(store, ["door"], after(hours=1))
    # The lease of the first one lasts for so long that it must come from a wrong clock.
    await second.look()
    await break_tests(store, ["wall"], after(hours=2))
    await first.look()
    await second.look()
    assert [each.names for each in receivers] == [["hinge"], ["door", "wall"]]


async def test_quarantines_that_expire_are_looked_for(store: Store) -> None:
    await add_webhook(store)
    receiver, clock = Scripted(), Clock(after(days=30))
    sender = NotificationSender(store, receiver, clock=clock)
    await sender.look()
    clock.now = NOON
    request = QuarantineRequest("hinge", "it sticks", expires_at=after(days=2))
    await store.add_quarantine(WIDGETS, request, NOON)
    await pass_time(sender, clock, after(days=2), timedelta(hours=1))
    types = [orjson.loads(each.body)["type"] for each in receiver.taken]
    assert types == [NotificationType.QUARANTINED, NotificationType.EXPIRING]
