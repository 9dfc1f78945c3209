"""A running service sends notifications about the results that are loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.builders import after
from tests.new_stores import open_new_store
from tests.service.notifications.receivers import receiving
from tests.service.notifications.scripted import add_webhook, break_tests
from tests.service.processes import TIMEOUT, Start

pytestmark = pytest.mark.slow


async def test_workers_send_each_notification_once(start: Start, tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    arrived = asyncio.Event()
    async with receiving() as receiver:
        receiver.on_message = arrived.set
        await add_webhook(store, url=receiver.url)
        service = start(MERGEWATCH_WORKERS="2", MERGEWATCH_NOTIFICATIONS="any")
        for _ in range(2):
            await asyncio.to_thread(service.next_line, "listening")
        for number, name in enumerate(("hinge", "door")):
            arrived.clear()
            await break_tests(store, [name], after(hours=number))
            await asyncio.wait_for(arrived.wait(), TIMEOUT)
        # One that has arrived is noted as sent a moment later; a stop in between repeats it.
        async with asyncio.timeout(TIMEOUT):
            while await store.find_waiting():  # noqa: ASYNC110 - another process notes it
                await asyncio.sleep(0.05)
        assert await asyncio.to_thread(service.stop) == 0
        names = [body["data"]["test_name"] for _, body in receiver.taken]
    assert names == ["hinge", "door"]
    await store.close()
