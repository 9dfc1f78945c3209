"""Every Redis failure: responses stay correct, and no request waits for Redis."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from indexing.identifiers import derive_test_id
from indexing.models.quarantines import QuarantineRequest
from service.cache.redis_connector import LIMIT_SECONDS
from service.config.settings import Settings
from tests.builders import GADGETS, NOON, WIDGETS, load_names
from tests.servers.redis import Redis
from tests.service.conftest import limit_redis, open_door
from tests.service.front_door import QUARANTINES, SEARCH, TESTS, FrontDoor

NAMES = [f"hinge {number}" for number in range(5)]
DETAILS = [f"{TESTS}/{derive_test_id(WIDGETS, name)}" for name in NAMES]
FOREIGN = f"{TESTS.replace('widgets', 'gadgets')}/{derive_test_id(GADGETS, NAMES[0])}"
TARGETS = [*DETAILS, FOREIGN, QUARANTINES, f"{SEARCH}?test_name=*"]
KILLS = 20
CLIENTS = 8


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with Redis(tmp_path / "redis", password="hush hush") as started:
        yield started


@pytest.fixture
async def door(tmp_path: Path, server: Redis) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(Settings(data_dir=tmp_path, redis_url=server.url)):
        for repository in (WIDGETS, GADGETS):
            await load_names(opened.store, NAMES, repository=repository)
        yield opened


@pytest.fixture
async def replica(door: FrontDoor) -> AsyncIterator[FrontDoor]:
    """Another process over the same store: it shares nothing that `door` caches in process."""
    async for opened in open_door(door.settings):
        yield opened


@pytest.fixture
async def right(tmp_path: Path, door: FrontDoor) -> dict[str, bytes]:
    """Return the responses of the service without Redis."""
    bodies = {}
    async for plain in open_door(Settings(data_dir=tmp_path)):
        bodies = {target: (await plain.get(target)).body for target in TARGETS}
    return bodies


async def assert_right(door: FrontDoor, right: dict[str, bytes]) -> None:
    for target in TARGETS:
        answer = await door.get(target)
        assert (answer.status, answer.body) == (200, right[target])


async def add(door: FrontDoor, name: str) -> None:
    await door.store.add_quarantine(WIDGETS, QuarantineRequest(name, "flaps"), NOON)


async def listed(door: FrontDoor) -> set[str]:
    rows = (await door.get(QUARANTINES)).json["quarantined_tests"]
    return {row["test_name"] for row in rows}


@pytest.fixture
async def inside(server: Redis) -> AsyncIterator[redis.asyncio.Redis]:
    """Yield a Redis client that is independent of the service."""
    client = redis.asyncio.Redis.from_url(server.url)
    yield client
    await client.aclose()


async def keep_all(door: FrontDoor, inside: redis.asyncio.Redis) -> list[bytes]:
    """Send requests until every response is cached in Redis; return the keys."""
    kept: list[bytes] = []
    while len([key for key in kept if b":value:" in key]) < len(TARGETS) + 3:
        for target in TARGETS:
            assert (await door.get(target)).status == 200
        kept = sorted(await keys_of(inside))
    return kept


async def keys_of(inside: redis.asyncio.Redis) -> list[bytes]:
    return [key for key in await inside.keys() if isinstance(key, bytes)]


async def test_nothing_in_redis_is_a_credential(
    door: FrontDoor, inside: redis.asyncio.Redis
) -> None:
    keys = await keep_all(door, inside)
    held = b"".join([*keys, *[await inside.dump(key) or b"" for key in keys]])
    assert b"hinge 1" in held
    assert door.key.encode() not in held
    assert door.key.removeprefix("mw_").encode() not in held


async def test_what_one_replica_keeps_another_gives_without_reading_the_store(
    door: FrontDoor,
    replica: FrontDoor,
    inside: redis.asyncio.Redis,
    right: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica.key = door.key
    await keep_all(door, inside)

    async def fail(*_: object) -> None:
        raise AssertionError("the store was read")

    for name in ("find_key", "find_repository", "get_test", "search_tests", "list_quarantines"):
        monkeypatch.setattr(replica.reader, name, fail)
    await assert_right(replica, right)


@pytest.mark.parametrize("harm", ["kill", "suspend", "make_full", "make_read_only"])
async def test_a_failing_redis_costs_no_answer(
    door: FrontDoor,
    replica: FrontDoor,
    server: Redis,
    right: dict[str, bytes],
    harm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for each in (door, replica):
        await assert_right(each, right)
    limit_redis(monkeypatch, LIMIT_SECONDS)
    await asyncio.to_thread(getattr(server, harm))
    for each in (door, replica):
        await assert_right(each, right)
        await assert_right(each, right)
    if harm == "suspend":
        server.resume()


@pytest.mark.parametrize("harm", ["kill", "suspend", "make_full"])
async def test_a_write_while_redis_fails_shows_everywhere(
    door: FrontDoor,
    replica: FrontDoor,
    server: Redis,
    harm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for each in (door, replica):
        assert await listed(each) == set()
    limit_redis(monkeypatch, LIMIT_SECONDS)
    await asyncio.to_thread(getattr(server, harm))
    await add(door, "one")
    for each in (door, replica):
        assert await listed(each) == {"one"}
    if harm == "suspend":
        server.resume()
    elif harm == "kill":
        await asyncio.to_thread(server.restart)
    await add(replica, "two")
    for each in (door, replica):
        assert await listed(each) == {"one", "two"}


async def test_garbage_under_every_key_is_no_answer(
    door: FrontDoor, replica: FrontDoor, inside: redis.asyncio.Redis, right: dict[str, bytes]
) -> None:
    for size in (0, 1, 16, 300):
        for key in await keep_all(door, inside):
            await inside.set(key, os.urandom(size))
        await assert_right(replica, right)
        await assert_right(door, right)


async def test_values_that_changed_places_are_no_answers(
    door: FrontDoor, replica: FrontDoor, inside: redis.asyncio.Redis, right: dict[str, bytes]
) -> None:
    keys = await keep_all(door, inside)
    values = await inside.mget(keys)
    for shift in range(1, len(keys)):
        moved = dict(zip(keys, [*values[shift:], *values[:shift]], strict=True))
        await inside.mset({key: value for key, value in moved.items() if value is not None})
        await assert_right(replica, right)
        await assert_right(door, right)


async def test_keys_of_another_type_are_no_answers(
    door: FrontDoor, replica: FrontDoor, inside: redis.asyncio.Redis, right: dict[str, bytes]
) -> None:
    for key in await keep_all(door, inside):
        await inside.delete(key)
        await inside.lpush(key, b"x")
    for each in (replica, door):
        await assert_right(each, right)
    # The keys of the wrong type were replaced: everything can be cached again.
    assert await keep_all(door, inside)


async def test_an_evicted_version_does_not_bring_back_old_values(
    door: FrontDoor, replica: FrontDoor, inside: redis.asyncio.Redis
) -> None:
    assert await listed(replica) == set()
    await keep_all(door, inside)
    before = {key: await inside.get(key) for key in await keys_of(inside) if b":value:" in key}
    await add(door, "one")
    for key in await keys_of(inside):
        if b":generation:" in key:
            await inside.delete(key)
    await inside.mset({key: value for key, value in before.items() if value is not None})
    for each in (replica, door):
        assert await listed(each) == {"one"}


async def test_a_wrong_password_is_no_cache_and_in_no_line(
    tmp_path: Path, server: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = server.url.replace("hush", "secret")
    async for door in open_door(Settings(data_dir=tmp_path, redis_url=wrong)):
        assert (await door.get(QUARANTINES)).status == 200
        await add(door, "one")
        assert await listed(door) == {"one"}
    written = "".join(capsys.readouterr())
    assert "secret" not in written
    assert "hush" not in written


async def test_redis_killed_and_back_under_load_fails_no_request(
    door: FrontDoor, replica: FrontDoor, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every write while Redis is down waits so long.
    monkeypatch.setattr("service.cache.redis.INVALIDATE_SECONDS", 0.2)
    done = False
    answered = 0

    async def load(target: str) -> None:
        nonlocal answered
        expected = (await door.get(target)).body
        while not done:
            for each in (door, replica):
                answer = await each.get(target)
                assert (answer.status, answer.body) == (200, expected)
                answered += 1

    clients = [asyncio.create_task(load(DETAILS[n % len(DETAILS)])) for n in range(CLIENTS)]
    for number in range(KILLS):
        before = answered
        server.kill()
        await add(door, f"killed {number}")
        for each in (door, replica):
            assert len(await listed(each)) == 2 * number + 1
        await asyncio.to_thread(server.start)
        await add(replica, f"back {number}")
        for each in (door, replica):
            assert len(await listed(each)) == 2 * number + 2
        assert answered > before
    done = True
    await asyncio.gather(*clients)


async def test_two_stores_in_one_redis_do_not_answer_for_each_other(
    tmp_path: Path, server: Redis, inside: redis.asyncio.Redis
) -> None:
    """Even with the same secret, and with each store's values and versions copied to the other."""
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        settings = Settings(data_dir=folder, redis_url=server.url, secret="one for both")
        async for door in open_door(settings):
            await add(door, folder.name)
            while await listed(door) and not await kept_lists(inside, folder):
                assert await listed(door) == {folder.name}
    one, other = sorted({key.split(b":")[2] for key in await keys_of(inside)})
    swapped: dict[bytes, bytes | str] = {}
    for key in await keys_of(inside):
        held = await inside.get(key)
        assert held is not None
        swapped[key.replace(one, other) if one in key else key.replace(other, one)] = held
    await inside.mset(swapped)
    for folder in folders:
        settings = Settings(data_dir=folder, redis_url=server.url, secret="one for both")
        async for door in open_door(settings):
            assert await listed(door) == {folder.name}


async def kept_lists(inside: redis.asyncio.Redis, folder: Path) -> bool:
    """Whether Redis holds one quarantine list for each store that has been read."""
    lists = [key for key in await keys_of(inside) if b":quarantines:" in key]
    return len(lists) == (1 if folder.name == "one" else 2)
