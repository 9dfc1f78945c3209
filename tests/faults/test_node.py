"""One Elasticsearch node, killed or suspended while clients send requests; also with Redis down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.clients import Clients, clients_of
from tests.faults.conftest import Stocked
from tests.faults.serving import service_over, serving
from tests.faults.stock import KEPT, TARGETS, UNCACHED
from tests.servers.redis import Redis
from tests.service.processes import TIMEOUT

KILLS = 2
# A request sent before the node was back may fail, and one more may find its caches cold.
TRIES = 3


@pytest.fixture(params=["cached in process", "cached in redis"])
async def clients(request: pytest.FixtureRequest, stocked: Stocked) -> AsyncIterator[Clients]:
    redis = request.param == "cached in redis"
    settings = {"MERGEWATCH_REDIS_URL": request.getfixturevalue("redis").url} if redis else {}
    with serving(stocked.place, **settings) as running:
        async with clients_of(running.base, stocked.key) as clients:
            await clients.learn(TARGETS)
            yield clients


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    with Redis(tmp_path) as started:
        yield started


async def test_reads_of_a_killed_node_work_as_soon_as_it_is_back(
    stocked: Stocked,
    clients: Clients,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    async with clients.under_load() as seen:
        for _ in range(KILLS):
            stocked.node.kill()
            await seen.until_unavailable(seen.statuses[503] + len(clients.first))
            # What the node answered before it was killed may arrive until then.
            await seen.until_newest(UNCACHED, 503)
            seen.start_over()
            # Cached reads still succeed, and are correct.
            await seen.until_right(KEPT)
            assert UNCACHED not in seen.right
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
    assert seen.statuses[503] > 0
    assert UNCACHED not in seen.right
    assert await clients.until_right() <= clients.in_time


async def test_with_elasticsearch_and_redis_both_gone_nothing_is_answered_wrong(
    stocked: Stocked, redis: Redis
) -> None:
    with serving(stocked.place, MERGEWATCH_REDIS_URL=redis.url) as running:
        async with clients_of(running.base, stocked.key) as clients:
            await clients.learn(TARGETS)
            async with clients.under_load() as seen:
                await seen.until_right(clients.first)
                redis.kill()
                stocked.node.kill()
                await seen.until_unavailable(seen.statuses[503] + len(clients.first))
                await asyncio.to_thread(stocked.node.start)
                seen.start_over()
                # The store alone is enough; Redis is still down.
                await seen.until_right(clients.first)
                assert max(seen.unavailable.values(), default=0) <= TRIES
                await asyncio.to_thread(redis.start)
                seen.start_over()
                await seen.until_right(clients.first)
                assert not seen.unavailable


def test_a_service_that_starts_without_its_store_says_so_and_ends(stocked: Stocked) -> None:
    stocked.node.kill()
    try:
        service = service_over(stocked.place, MERGEWATCH_LOG_FORMAT="text")
        _, said = service.process.communicate(timeout=TIMEOUT)
    finally:
        stocked.node.start()
    assert service.process.returncode == 1
    assert "cannot be reached" in said
    assert "Traceback" not in said
