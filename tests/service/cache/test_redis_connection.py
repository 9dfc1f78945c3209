"""The Redis connection: one MGET per iteration of the event loop, and misses when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from service.cache.redis_connection import MAX_KEYS, MAX_WRITTEN_BYTES, RedisConnection
from service.cache.redis_connector import LIMIT_SECONDS, Command, RedisClient
from tests.servers.proxy import (
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
from tests.servers.redis import Redis
from tests.service.conftest import limit_redis
from tests.service.processes import TIMEOUT

FAILING = [
    Delayed(4 * LIMIT_SECONDS),
    Silent(),
    Trickling(LIMIT_SECONDS),
    Cut(),
    Resetting(),
    Down(),
]


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Proxy]:
    with Redis(tmp_path) as redis:
        async with Proxy(redis.port.number) as opened:
            yield opened


class Limit:
    """The time limit of look-ups. A machine under load may need longer for one that succeeds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.lift()

    def lift(self) -> None:
        limit_redis(self._monkeypatch, TIMEOUT)

    def restore(self) -> None:
        limit_redis(self._monkeypatch, LIMIT_SECONDS)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    return Limit(monkeypatch)


@pytest.fixture
async def link(proxy: Proxy, limit: Limit) -> AsyncIterator[RedisConnection]:
    opened = RedisConnection(f"redis://{proxy.address}/0")
    await opened.open()
    yield opened
    await opened.close()


async def put(link: RedisConnection, **values: str) -> None:
    commands = [("SET", name, value) for name, value in values.items()]
    # As many at once as surely fit into the time limit.
    for start in range(0, len(commands), MAX_KEYS):
        some = commands[start : start + MAX_KEYS]
        assert await link.execute(some) == [b"OK"] * len(some)


async def count_of(link: RedisConnection, command: str) -> int:
    replies = await link.execute([("INFO", "commandstats")])
    assert replies is not None
    for line in replies[0].decode().splitlines():
        if line.startswith(f"cmdstat_{command}:calls="):
            return int(line.partition("=")[2].partition(",")[0])
    return 0


async def test_all_look_ups_of_one_iteration_are_one_command(link: RedisConnection) -> None:
    await put(link, a="1", b="2")
    before = await count_of(link, "mget")
    asked = await asyncio.gather(
        *(link.get((b"a", b"b")) for _ in range(50)), *(link.get((b"b", b"c")) for _ in range(50))
    )
    assert asked == [(b"1", b"2")] * 50 + [(b"2", None)] * 50
    assert await count_of(link, "mget") - before == 1


async def test_more_keys_than_one_command_takes_are_several(link: RedisConnection) -> None:
    await put(link, **{str(number): f"v{number}" for number in range(3 * MAX_KEYS)})
    keys = [str(number).encode() for number in range(3 * MAX_KEYS)]
    before = await count_of(link, "mget")
    asked = await asyncio.gather(*(link.get((key,)) for key in keys))
    assert asked == [(b"v" + key,) for key in keys]
    assert await count_of(link, "mget") - before == 3


async def test_look_ups_wait_for_few_bytes_of_writes(
    link: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[list[int]] = []
    execute = RedisClient.execute

    async def note(client: RedisClient, commands: Sequence[Command]) -> list[Any]:
        sizes.append([len(str(command[2])) for command in commands if command[0] == "SET"])
        return await execute(client, commands)

    monkeypatch.setattr(RedisClient, "execute", note)
    for name, size in (("a", 2), ("b", 1), ("c", 9), ("d", 3), ("e", 3)):
        value = "x" * (size * MAX_WRITTEN_BYTES // 8)
        link.write(("SET", name, value), len(value))
    assert await link.get((b"a",)) != (None,)
    while await link.get((b"e",)) == (None,):
        pass
    eighth = MAX_WRITTEN_BYTES // 8
    found = [[size // eighth for size in each] for each in sizes if each]
    assert found == [[2, 1], [9], [3, 3]]


async def test_cancelling_one_look_up_leaves_the_others(link: RedisConnection) -> None:
    await put(link, a="1")
    first, second = (asyncio.create_task(link.get((b"a",))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == (b"1",)
    assert first.cancelled()
    assert await link.get((b"a",)) == (b"1",)


@pytest.mark.parametrize("behaviour", FAILING, ids=lambda behaviour: type(behaviour).__name__)
async def test_failed_look_ups_are_misses_until_redis_works_again(
    proxy: Proxy, link: RedisConnection, limit: Limit, behaviour: Behaviour
) -> None:
    await put(link, a="1")
    assert await link.get((b"a",)) == (b"1",)
    limit.restore()
    await proxy.turn(behaviour)
    for _ in range(3):
        assert [*await asyncio.gather(link.get((b"a",)), link.get((b"b",)))] == [None, None]
    link.write(("SET", b"a", b"2"), 1)
    await proxy.turn(Passing())
    limit.lift()
    while not await link.connect():
        pass
    assert await link.get((b"a",)) in [(b"1",), (b"2",)]


async def test_an_unexpected_error_is_logged_and_leaves_no_look_up_waiting(
    link: RedisConnection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await put(link, a="1")

    close = RedisClient.close

    async def fail(*_: object) -> list[Any]:
        raise OSError("gone")

    async def close_badly(client: RedisClient) -> None:
        await close(client)
        raise ArithmeticError("a mistake")

    with monkeypatch.context() as patched:
        patched.setattr(RedisClient, "execute", fail)
        patched.setattr(RedisClient, "close", close_badly)
        async with asyncio.timeout(TIMEOUT):
            assert await link.get((b"a",)) is None
    assert "unhandled error in an exchange with redis" in caplog.text
    assert "a mistake" in caplog.text
    assert await link.connect()
    assert await link.get((b"a",)) == (b"1",)


async def test_too_few_values_leave_no_look_up_waiting(
    link: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(link, a="1")

    async def answer(*_: object) -> list[Any]:
        return [[]]

    with monkeypatch.context() as patched:
        patched.setattr(RedisClient, "execute", answer)
        async with asyncio.timeout(TIMEOUT):
            assert await link.get((b"a",)) is None
    assert await link.get((b"a",)) == (b"1",)


async def test_a_connection_that_ended_is_replaced_by_one_that_was_tried(
    proxy: Proxy, link: RedisConnection
) -> None:
    await put(link, a="1")
    tried = await count_of(link, "incrby")
    await proxy.turn(Down())
    await proxy.turn(Passing())
    # The look-up that finds the end is a miss: none waits for another connection.
    assert await link.get((b"a",)) is None
    while not await link.connect():
        pass
    assert await link.get((b"a",)) == (b"1",)
    assert await count_of(link, "incrby") == tried + 1


async def test_a_silent_redis_is_left_alone_after_it_failed_twice(
    proxy: Proxy, link: RedisConnection, limit: Limit
) -> None:
    limit.restore()
    await proxy.turn(Silent())
    assert await link.get((b"a",)) is None
    # One retry follows at once; later ones are delayed, however many requests arrive meanwhile.
    assert not await link.connect()
    accepted = proxy.accepted
    for _ in range(1_000):
        assert await link.get((b"a",)) is None
    assert proxy.accepted <= accepted + 1


async def test_a_closed_connection_finds_nothing(link: RedisConnection) -> None:
    waiting = [asyncio.create_task(link.get((b"a",))) for _ in range(3)]
    await asyncio.sleep(0)
    await link.close()
    assert await asyncio.gather(*waiting) == [None] * 3
    assert await link.get((b"a",)) is None
    assert not await link.connect()
