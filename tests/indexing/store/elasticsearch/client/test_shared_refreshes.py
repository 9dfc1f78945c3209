"""Callers share refreshes, and each gets one that began after its call."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from indexing.errors import StoreUnavailableError
from indexing.store.elasticsearch.client.shared_refreshes import SharedRefreshes
from tests.waiting import let_run


class Node:
    """Counts refreshes, and ends each when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ends: deque[asyncio.Future[None]] = deque()

    async def refresh(self, index: str) -> None:
        self.begun.append(index)
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        await end

    async def end_first(self, error: Exception | None = None) -> None:
        end = self._ends.popleft()
        if error is None:
            end.set_result(None)
        else:
            end.set_exception(error)
        await let_run()


async def test_concurrent_refreshes_share_one() -> None:
    node = Node()
    shared = SharedRefreshes(node.refresh)
    refreshes = [asyncio.create_task(shared.refresh("a")) for _ in range(9)]
    await let_run()
    await node.end_first()
    await asyncio.gather(*refreshes)
    assert node.begun == ["a"]


async def test_a_refresh_requested_during_another_starts_afterwards() -> None:
    node = Node()
    shared = SharedRefreshes(node.refresh)
    first = asyncio.create_task(shared.refresh("a"))
    await let_run()
    later = [asyncio.create_task(shared.refresh("a")) for _ in range(9)]
    await let_run()
    assert node.begun == ["a"]
    await node.end_first()
    assert first.done()
    assert not any(task.done() for task in later)
    assert node.begun == ["a", "a"]
    last = asyncio.create_task(shared.refresh("a"))
    await let_run()
    await node.end_first()
    assert all(task.done() for task in later)
    assert not last.done()
    await node.end_first()
    await last
    assert node.begun == ["a", "a", "a"]


async def test_indices_do_not_wait_for_each_other() -> None:
    node = Node()
    shared = SharedRefreshes(node.refresh)
    refreshes = [asyncio.create_task(shared.refresh(index)) for index in "ab"]
    await let_run()
    assert node.begun == ["a", "b"]
    await node.end_first()
    await node.end_first()
    await asyncio.gather(*refreshes)


async def test_cancelling_one_caller_leaves_the_rest() -> None:
    node = Node()
    shared = SharedRefreshes(node.refresh)
    refreshes = [asyncio.create_task(shared.refresh("a")) for _ in range(2)]
    await let_run()
    refreshes[0].cancel()
    await let_run()
    await node.end_first()
    await refreshes[1]
    assert refreshes[0].cancelled()


async def test_a_failure_is_that_of_its_own_callers() -> None:
    node = Node()
    shared = SharedRefreshes(node.refresh)
    first = asyncio.create_task(shared.refresh("a"))
    await let_run()
    second = asyncio.create_task(shared.refresh("a"))
    await let_run()
    await node.end_first(StoreUnavailableError("gone"))
    with pytest.raises(StoreUnavailableError):
        await first
    await node.end_first()
    await second
