"""The network between the service and Elasticsearch, with every fault that the proxy simulates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.faults.clients import Clients, clients_of
from tests.faults.conftest import Stocked
from tests.faults.serving import start
from tests.faults.stock import TARGETS
from tests.servers.proxy import (
    Answering,
    Behaviour,
    Cut,
    Delayed,
    Down,
    Passing,
    Proxy,
    Resetting,
    Silent,
    Trickling,
)

FAULTS: dict[str, Behaviour] = {
    "beyond the limit": Delayed(5.0),
    "silent": Silent(),
    "refused": Down(),
    "reset": Resetting(),
    "cut": Cut(),
    "a byte at a time": Trickling(0.02),
    "429": Answering(429, retry_after=1),
    "503": Answering(503),
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def path(stocked: Stocked) -> AsyncIterator[tuple[Proxy, Clients]]:
    """The proxy between a service and its node, and clients of that service."""
    async with Proxy(stocked.node.http.number) as proxy, AsyncExitStack() as stack:
        place = stocked.through(f"http://{proxy.address}")
        # Started in a thread, because the proxy that it connects to runs in this event loop.
        running = await asyncio.to_thread(start, place)
        stack.push_async_callback(asyncio.to_thread, running.end)
        clients = await stack.enter_async_context(clients_of(running.base, stocked.key))
        await clients.learn(TARGETS)
        yield proxy, clients


async def test_what_takes_several_slow_questions_is_interrupted_in_time(
    stocked: Stocked, path: tuple[Proxy, Clients]
) -> None:
    proxy, clients = path
    # Within the timeout of each request to the store, but not of all that a first response needs.
    await proxy.turn(Delayed(0.8))
    running = await asyncio.to_thread(start, stocked.through(f"http://{proxy.address}"))
    try:
        async with clients_of(running.base, stocked.key) as newcomers:
            newcomers.know(clients)
            seen = await newcomers.check_all()
            assert seen.statuses[503] > 0
            await proxy.turn(Passing())
            assert await newcomers.until_right() <= newcomers.in_time
    finally:
        await proxy.turn(Passing())
        await asyncio.to_thread(running.end)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
async def test_answers_are_right_or_unavailable_in_time_and_right_afterwards(
    path: tuple[Proxy, Clients], fault: Behaviour
) -> None:
    proxy, clients = path
    await proxy.turn(fault)
    seen = await clients.check_all(rounds=2)
    assert seen.statuses[503] > 0
    await proxy.turn(Passing())
    assert await clients.until_right() <= clients.in_time
    seen = await clients.check_all()
    assert set(seen.statuses) == {200}
