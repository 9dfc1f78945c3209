"""Concurrent reads, and which of them may share the result of a read in progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.cache.answers import key_of_answer
from service.cache.codecs import Codec
from service.cache.keys import Kind
from service.cache.memory import MemoryBackend
from service.cache.redis import RedisBackend
from service.cache.redis_connection import RedisConnection
from service.cache.session import Cache
from service.cache.signing import CacheSigner
from tests.builders import WIDGETS

KEY = key_of_answer(Kind.TEST, WIDGETS, b"hinge")
TEXT = Codec(str.encode, bytes.decode, len)


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[Cache]:
    """A cache whose Redis does not exist."""
    connection = RedisConnection(f"unix://{tmp_path}/nobody")
    yield Cache(RedisBackend(connection, CacheSigner(b"a secret"), "store"))
    await connection.close()


async def test_requests_during_a_read_share_the_next_read(cache: Cache) -> None:
    stored, begun = "old", 0
    reading, let_go = asyncio.Event(), asyncio.Event()

    async def read() -> str:
        nonlocal begun
        begun += 1
        found = stored
        reading.set()
        await let_go.wait()
        return found

    async def ask_once() -> str | None:
        session = await cache.open_session((), ())
        return await session.find(KEY, read, TEXT)

    first = asyncio.create_task(ask_once())
    await reading.wait()
    stored = "new"
    later = [asyncio.create_task(ask_once()) for _ in range(100)]
    for _ in range(20):
        await asyncio.sleep(0)
    let_go.set()
    assert await first == "old"
    # None of them gets a value that was read before its request.
    assert await asyncio.gather(*later) == ["new"] * 100
    assert begun == 2


async def test_a_request_does_not_share_what_ended_before_it_began() -> None:
    cache = Cache(MemoryBackend(lambda: None))
    begun: list[int] = []
    let_go = asyncio.Event()

    async def ask_at(now: int) -> str | None:
        async def read() -> str:
            begun.append(now)
            await let_go.wait()
            return f"in force at {now}"

        session = await cache.open_session((), ())
        # What is in force at 0 ends before 2.
        return await session.find(KEY, read, TEXT, lambda found: now < 2 or found[-1] == "2")

    asked = [asyncio.create_task(ask_at(now)) for now in (0, 1, 2, 2)]
    for _ in range(20):
        await asyncio.sleep(0)
    let_go.set()
    earlier, later = ["in force at 0"] * 2, ["in force at 2"] * 2
    assert await asyncio.gather(*asked) == earlier + later
    assert begun == [0, 2]
