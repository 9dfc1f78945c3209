"""The end of a process, whose background tasks may hang on the store."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.config.settings import Settings
from service.middleware.shielded_work import FINISH_SECONDS
from service.server import process
from service.server.event_counting import EventCounting
from service.server.process import Worker, bind
from service.server.supervisor import STOP_SECONDS
from tests.new_stores import open_new_store
from tests.service.processes import TIMEOUT

# What orchestrators give.
GIVEN_SECONDS = 10


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """Undo what a process does to the cycle collector."""
    yield
    gc.unfreeze()


def test_a_process_ends_before_orchestrators_kill_it() -> None:
    before_requests = max(process.DRAIN_SECONDS, process.TASKS_SECONDS)
    requests = process.SHUTDOWN_SECONDS + FINISH_SECONDS
    assert before_requests + requests < GIVEN_SECONDS < STOP_SECONDS


async def test_an_error_that_ends_a_task_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_counting: EventCounting) -> None:
        raise ArithmeticError("a mistake")

    monkeypatch.setattr(EventCounting, "run", fail)
    store = await open_new_store(tmp_path)
    (task,) = process._start_tasks(Settings(data_dir=tmp_path, ui=False), store)
    await asyncio.wait([task])
    await asyncio.sleep(0)
    (record,) = (each for each in caplog.records if each.name == process.__name__)
    assert record.getMessage() == "background task failed"
    assert "fail" in vars(record)["task"]
    assert "a mistake" in caplog.text
    await store.close()


async def test_a_task_that_hangs_while_it_ends_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="service.server")
    monkeypatch.setattr(process, "TASKS_SECONDS", 0.01)
    begun, cleaned_up = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.Event().wait()
            finally:
                cleaned_up.set()

    monkeypatch.setattr(process, "_start_tasks", lambda *_: {asyncio.create_task(hang())})
    parent, held = os.pipe()
    with bind("127.0.0.1", 0) as sock:
        worker = Worker(parent, 0, None, None)
        serving = process._serve_until_stopped(Settings(data_dir=tmp_path), sock, worker)
        running = asyncio.create_task(serving)
        await asyncio.wait_for(begun.wait(), TIMEOUT)
        # It stops when its supervisor ends.
        os.close(held)
        await asyncio.wait_for(running, TIMEOUT)
    os.close(parent)
    assert "background task did not end in time" in caplog.text
    # It is cancelled again, so nothing of it runs on.
    await asyncio.wait_for(cleaned_up.wait(), TIMEOUT)
