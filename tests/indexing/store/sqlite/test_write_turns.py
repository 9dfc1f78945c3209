"""Writers of several processes take turns; two connections stand for two processes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from indexing.errors import StoreUnavailableError
from indexing.store.sqlite import connections
from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.write_turns import LONG_SECONDS, WriteTurns
from tests.service.processes import TIMEOUT

# The last of many long transactions, if the small ones get no turn before it.
_MOST: Final = 300


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Connections, Connections]]:
    one, other = (Connections.open(tmp_path / "store.sqlite") for _ in range(2))
    yield one, other
    for each in (one, other):
        await each.close()


class Holding:
    """A transaction that ends when it is told to."""

    def __init__(self) -> None:
        self._has_begun, self.may_end = threading.Event(), threading.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self, held: Connections) -> None:
        self._task = asyncio.create_task(held.write(self._hold))
        await asyncio.to_thread(self._has_begun.wait, TIMEOUT)

    def _hold(self, _: object) -> None:
        self._has_begun.set()
        self.may_end.wait(TIMEOUT)

    async def end(self) -> None:
        self.may_end.set()
        if self._task is not None:
            await self._task


async def test_small_writes_get_their_turn_between_the_long_ones_of_another_process(
    both: tuple[Connections, Connections],
) -> None:
    one, other = both
    begun, is_over = 0, False

    def hold(_: object) -> None:
        nonlocal begun
        begun += 1
        time.sleep(3 * LONG_SECONDS)

    async def write_much() -> None:
        while not is_over and begun < _MOST:
            await one.write(hold)

    writing = asyncio.create_task(write_much())
    waited: list[int] = []
    for _ in range(10):
        before = begun
        await other.write(lambda _: None)
        waited.append(begun - before)
        await asyncio.sleep(LONG_SECONDS)
    is_over = True
    await writing
    assert sum(waited) < 50, waited


async def test_a_write_whose_caller_left_before_it_began_changes_nothing(
    both: tuple[Connections, Connections],
) -> None:
    one, other = both
    holding, did = Holding(), threading.Event()
    await holding.begin(other)
    writing = asyncio.create_task(one.write(lambda _: did.set()))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await holding.end()
    await one.write(lambda _: None)
    assert not did.is_set()


class LeavesAfterOneLook(threading.Event):
    """A caller that leaves right after the writer looked whether it is still there."""

    def is_set(self) -> bool:
        was_set = super().is_set()
        self.set()
        return was_set


def test_a_caller_who_leaves_just_before_the_transaction_begins_is_noticed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as connection:
        turns = WriteTurns(busy_seconds=TIMEOUT)
        with pytest.raises(asyncio.CancelledError):
            turns.begin(connection, LeavesAfterOneLook())
        assert not connection.in_transaction
        turns.begin(connection, threading.Event())
        assert connection.in_transaction


async def test_closing_does_not_wait_for_a_write_that_nobody_waits_for(tmp_path: Path) -> None:
    one, other = (Connections.open(tmp_path / "store.sqlite") for _ in range(2))
    holding = Holding()
    await holding.begin(other)
    writing = asyncio.create_task(one.write(lambda _: None))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    # Much shorter than the other process holds the file.
    async with asyncio.timeout(TIMEOUT / 3):
        await one.close()
    await holding.end()
    await other.close()


async def test_a_file_that_stays_busy_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WRITER_BUSY_SECONDS", 0.01)
    one, other = (Connections.open(tmp_path / "store.sqlite") for _ in range(2))
    holding = Holding()
    await holding.begin(other)
    with pytest.raises(StoreUnavailableError, match="locked"):
        await one.write(lambda _: None)
    await holding.end()
    await one.write(lambda _: None)
    for each in (one, other):
        await each.close()
