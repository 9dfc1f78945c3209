"""One node of Elasticsearch, killed or stopped while clients ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.faults.asking import Clients, clients_of
from tests.faults.conftest import Stocked
from tests.faults.serving import service_over, serving
from tests.faults.stock import TARGETS
from tests.service.processes import TIMEOUT

KILLS = 2
# What was asked before the node was back may fail yet, and once more what finds it cold.
TRIES = 3


@pytest.fixture
async def clients(stocked: Stocked) -> AsyncIterator[Clients]:
    with serving(stocked.place) as running:
        async with clients_of(running.base, stocked.key) as asking:
            await asking.learn(TARGETS)
            yield asking


async def test_reads_of_a_killed_node_work_as_soon_as_it_is_back(
    stocked: Stocked, clients: Clients, record_testsuite_property: Callable[[str, object], None]
) -> None:
    async with clients.under_load() as seen:
        for _ in range(KILLS):
            stocked.node.kill()
            await seen.until_unavailable(seen.statuses[503] + len(clients.first))
            await asyncio.to_thread(stocked.node.start)
            seen.start_over()
            took = await seen.until_right(clients.first)
            record_testsuite_property("seconds until all reads work", took)
            assert max(seen.unavailable.values(), default=0) <= TRIES


async def test_a_stopped_node_is_unavailable_and_reads_work_as_soon_as_it_goes_on(
    stocked: Stocked, clients: Clients
) -> None:
    stocked.node.suspend()
    try:
        seen = await clients.check_all()
    finally:
        stocked.node.resume()
    assert set(seen.statuses) == {503}
    assert await clients.until_right() <= clients.in_time


def test_a_service_that_starts_without_its_store_says_so_and_ends(stocked: Stocked) -> None:
    stocked.node.kill()
    try:
        service = service_over(stocked.place, MERGEWATCH_LOG_FORMAT="text")
        _, said = service.process.communicate(timeout=TIMEOUT)
    finally:
        stocked.node.start()
    assert service.process.returncode == 1
    assert "Elasticsearch cannot be reached" in said
    assert "Traceback" not in said
