"""A Redis that refuses: responses stay correct, writers go on, one log line gives the reason."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio

from indexing.models.quarantines import QuarantineRequest
from service.cache import redis as backend
from service.cache import redis_connection
from service.config.settings import Settings
from tests.builders import NOON, WIDGETS, load_names
from tests.servers.ports import HOST
from tests.servers.redis import SLOTS, Redis
from tests.service.conftest import open_door
from tests.service.front_door import QUARANTINES, FrontDoor
from tests.service.processes import TIMEOUT

PASSWORD = "hush hush"
MINIMAL = ("~mergewatch:*", "-@all", "+get", "+mget", "+set", "+del")
COUNTING = ("+incrby", "+pttl", "+pexpire")

Warnings = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    # A refusal is a reply, and a writer that waits for it waits as long as a reader.
    monkeypatch.setattr(backend, "INVALIDATE_SECONDS", float(TIMEOUT))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    with Redis(tmp_path / "redis", password=PASSWORD) as started:
        yield started


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Warnings:
    """Return the warnings about Redis so far."""
    caplog.set_level(logging.WARNING, logger="service.cache")
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name == "service.cache.redis_connection" and record.levelno == logging.WARNING
    ]


@asynccontextmanager
async def opened(tmp_path: Path, url: str) -> AsyncIterator[FrontDoor]:
    began = time.monotonic()
    async for door in open_door(Settings(data_dir=tmp_path, redis_url=url, metrics=True)):
        await load_names(door.store, ["hinge"])
        # Only the first writer would wait for a Redis that it takes for one that comes back.
        assert time.monotonic() - began < TIMEOUT
        yield door


async def add(door: FrontDoor, name: str) -> float:
    """Quarantine a test; return how long the writer waited."""
    began = time.monotonic()
    await door.store.add_quarantine(WIDGETS, QuarantineRequest(name, "flaps"), NOON)
    return time.monotonic() - began


async def listed(door: FrontDoor) -> set[str]:
    answer = await door.get(QUARANTINES)
    assert answer.status == 200
    return {row["test_name"] for row in answer.json["quarantined_tests"]}


async def metric(door: FrontDoor, name: str) -> float:
    async with door.client.get(f"{door.base}/metrics") as response:
        lines = (await response.text()).splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


async def assert_unusable(door: FrontDoor, reason: str) -> None:
    """Responses stay correct, writers do not wait, and the metrics count the reason."""
    names = [f"{reason} {number}" for number in range(3)]
    before = await listed(door)
    for count, name in enumerate(names, start=1):
        assert await add(door, name) < TIMEOUT
        assert await listed(door) == before | set(names[:count])
    assert await metric(door, "mergewatch_redis_usable") == 0
    assert await metric(door, f'mergewatch_redis_failures_total{{reason="{reason}"}}') > 0


async def assert_shared(url: str, doors: Sequence[FrontDoor]) -> None:
    """Assert that each process sees the writes of others at once, and that values reach Redis."""
    for number, door in enumerate(doors):
        for each in doors:
            await listed(each)
        await add(door, f"shared {number}")
        for each in doors:
            assert f"shared {number}" in await listed(each)
    client = redis.asyncio.Redis.from_url(url)
    try:
        while not [key async for key in client.scan_iter("*:value:quarantines:*")]:
            await listed(doors[0])
    finally:
        await client.aclose()
    for number, door in enumerate(doors):
        asked = 0
        while await metric(door, "mergewatch_redis_usable") == 0:
            # Each request is for a value not yet cached, which uses Redis.
            assert (await door.get(f"{QUARANTINES}?branch={number}-{asked}")).status == 200
            asked += 1


async def test_a_redis_replica_is_not_used_and_reported_once(
    tmp_path: Path, server: Redis, warnings: Warnings
) -> None:
    server.make_read_only()
    async with opened(tmp_path, server.url) as door:
        await assert_unusable(door, "readonly")
    (warning,) = warnings()
    assert f"the Redis at {HOST}:{server.port.number} is a read-only replica" in warning
    assert "point MERGEWATCH_REDIS_URL at the primary" in warning


async def test_a_primary_that_becomes_a_replica_is_unused_until_it_is_primary_again(
    tmp_path: Path, server: Redis, warnings: Warnings
) -> None:
    async with opened(tmp_path, server.url) as door, opened(tmp_path, server.url) as other:
        other.key = door.key
        await assert_shared(server.url, [door, other])
        server.make_read_only()
        await assert_unusable(door, "readonly")
        server.make_whole()
        # A process with an invalidation still to send to Redis retries ten times a second.
        while await metric(door, "mergewatch_redis_usable") == 0:
            await listed(door)
        await listed(other)
        while await metric(other, "mergewatch_redis_usable") == 0:
            await listed(other)
        await assert_shared(server.url, [door, other])
    assert len([warning for warning in warnings() if "replica" in warning]) <= 2


@pytest.mark.parametrize(
    ("rules", "command"),
    [
        (("~*", "-@all", "+@read"), "may only read"),
        (("~*", "-@all", "+@write"), "may only write"),
        (("~other:*", "+@all"), "has other keys"),
    ],
)
async def test_a_redis_user_without_rights_is_reported_once(
    tmp_path: Path, server: Redis, warnings: Warnings, rules: tuple[str, ...], command: str
) -> None:
    url = server.add_user("cache", "se cret", *rules)
    async with opened(tmp_path, url) as door:
        await assert_unusable(door, "noperm")
    (warning,) = warnings()
    assert "docs/operations.md" in warning, command
    assert "cret" not in warning


async def test_the_documented_rights_are_enough(
    tmp_path: Path, server: Redis, warnings: Warnings
) -> None:
    url = server.add_user("cache", "secret", *MINIMAL, *COUNTING)
    async with opened(tmp_path, url) as door, opened(tmp_path, url) as other:
        other.key = door.key
        await assert_shared(server.url, [door, other])
    assert warnings() == []
    rule = " ".join((*MINIMAL, *COUNTING))
    operations = Path(__file__).parents[3] / "docs" / "operations.md"
    assert rule in operations.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://{address}/0", "noauth"),
        ("redis://:wrong@{address}/0", "wrongpass"),
        ("redis://:hush%20hush@{address}/99", "database"),
    ],
)
async def test_a_wrong_redis_url_is_reported_once(
    tmp_path: Path, server: Redis, warnings: Warnings, url: str, reason: str
) -> None:
    address = f"{HOST}:{server.port.number}"
    async with opened(tmp_path, url.format(address=address)) as door:
        await assert_unusable(door, reason)
    (warning,) = warnings()
    assert address in warning
    assert "wrong@" not in warning
    assert "hush" not in warning


async def test_a_full_redis_is_reported_once_and_still_gets_invalidations(
    tmp_path: Path, server: Redis, warnings: Warnings
) -> None:
    async with opened(tmp_path, server.url) as door, opened(tmp_path, server.url) as other:
        other.key = door.key
        await assert_shared(server.url, [door, other])
        server.make_full()
        for number in range(3):
            await add(door, f"full {number}")
            for each in (door, other):
                assert f"full {number}" in await listed(each)
        assert await metric(door, 'mergewatch_redis_failures_total{reason="oom"}') > 0
        assert await metric(door, "mergewatch_redis_usable") == 0
        server.make_whole()
        await assert_shared(server.url, [door, other])
    assert [warning for warning in warnings() if "maxmemory-policy" not in warning] == []
    assert len(warnings()) <= 2


async def test_the_log_has_the_begin_and_the_end_of_each_time_that_redis_is_full(
    tmp_path: Path,
    server: Redis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_connection, "WARN_AGAIN_SECONDS", 0.0)
    caplog.set_level(logging.INFO, logger="service.cache.redis_connection")
    async with opened(tmp_path, server.url) as door:
        for _ in range(2):
            server.make_full()
            for number in range(3):
                await door.get(f"{QUARANTINES}?branch=full-{number}")
            while await metric(door, "mergewatch_redis_usable"):
                await door.get(f"{QUARANTINES}?branch={uuid.uuid4()}")
            server.make_whole()
            await assert_shared(server.url, [door])
    lines = [each for each in caplog.records if each.getMessage() != "redis connected"]
    assert ["is full" in each.getMessage() for each in lines] == [True, False, True, False]
    assert {each.getMessage() for each in lines[1::2]} == {"redis takes values again"}
    # No attempt to connect has failed.
    assert not any(hasattr(each, "failures") for each in lines)


def node(folder: Path) -> Redis:
    return Redis(folder, password=PASSWORD, cluster=True)


async def test_a_cluster_without_slots_is_reported_once(tmp_path: Path, warnings: Warnings) -> None:
    with node(tmp_path / "redis") as server:
        async with opened(tmp_path, server.url) as door:
            await assert_unusable(door, "clusterdown")
    (warning,) = warnings()
    assert "CLUSTER INFO" in warning


async def test_a_cluster_of_one_node_works(tmp_path: Path, warnings: Warnings) -> None:
    with node(tmp_path / "redis") as server:
        server.give_all_slots()
        async with opened(tmp_path, server.url) as door, opened(tmp_path, server.url) as other:
            other.key = door.key
            await assert_shared(server.url, [door, other])
    assert warnings() == []


async def test_the_cache_is_found_through_any_node_of_a_cluster(
    tmp_path: Path, warnings: Warnings
) -> None:
    with ExitStack() as stack:
        nodes = [stack.enter_context(node(tmp_path / f"redis {number}")) for number in range(2)]
        nodes[0].give_slots(0, SLOTS // 2 - 1)
        nodes[1].give_slots(SLOTS // 2, SLOTS - 1)
        nodes[0].meet(nodes[1])
        await until_whole(nodes)
        async with (
            opened(tmp_path, nodes[0].url) as door,
            opened(tmp_path, nodes[1].url) as other,
        ):
            other.key = door.key
            holder = await find_holder(door, nodes)
            await assert_shared(holder.url, [door, other])
            # The slot moves to the other node, as when a cluster grows.
            heir = next(each for each in nodes if each is not holder)
            await move_slot(holder, heir)
            assert await find_holder(door, nodes) is heir
            await assert_shared(heir.url, [door, other])
    assert warnings() == []


async def test_the_node_of_a_cluster_that_refuses_is_named(
    tmp_path: Path, warnings: Warnings
) -> None:
    with node(tmp_path / "first") as first, node(tmp_path / "second") as second:
        second.give_all_slots()
        first.meet(second)
        await until_whole([first, second])
        # Each node has users of its own.
        url = first.add_user("cache", "secret", *MINIMAL, *COUNTING)
        async with opened(tmp_path, url) as door:
            await assert_unusable(door, "wrongpass")
    (warning,) = warnings()
    assert f"the Redis at {HOST}:{second.port.number} rejects the user or password" in warning


async def until_whole(nodes: Sequence[Redis]) -> None:
    for each in nodes:
        client = redis.asyncio.Redis.from_url(each.url)
        while (await client.execute_command("CLUSTER INFO"))["cluster_state"] != "ok":
            # Polling is the only way to wait here.
            pass
        await client.aclose()


async def find_holder(door: FrontDoor, nodes: Sequence[Redis]) -> Redis:
    """Return the node that has the keys of the store."""
    while True:
        await listed(door)
        for each in nodes:
            client = redis.asyncio.Redis.from_url(each.url)
            keys = [key async for key in client.scan_iter("*:generation:*")]
            await client.aclose()
            if keys:
                return each


async def move_slot(source: Redis, target: Redis) -> None:
    """Move the slot of all existing keys to another node, without its contents.

    https://valkey.io/commands/cluster-setslot/ has the steps.
    """
    here, there = (redis.asyncio.Redis.from_url(each.url) for each in (source, target))
    slot = await here.execute_command("CLUSTER KEYSLOT", (await here.keys())[0])
    old, new = [await client.execute_command("CLUSTER MYID") for client in (here, there)]
    await there.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", old)
    await here.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", new)
    await here.flushall()
    for client in (there, here):
        await client.execute_command("CLUSTER SETSLOT", slot, "NODE", new)
        await client.aclose()
