"""What many ask at once, where no shelf tells whether a reading under way is still right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.cache.codecs import Form
from service.cache.keys import Kind, ask
from service.cache.redis import RedisShelf
from service.cache.redis_connection import RedisLink
from service.cache.session import Cache
from service.cache.signing import Sealing
from tests.builders import WIDGETS

QUESTION = ask(Kind.TEST, WIDGETS, b"hinge")
TEXT = Form(str.encode, bytes.decode, len)


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[Cache]:
    """One whose Redis is not there."""
    link = RedisLink(f"unix://{tmp_path}/nobody")
    yield Cache(RedisShelf(link, Sealing(b"a secret"), "store"))
    await link.close()


async def test_what_is_asked_during_a_reading_is_read_once_more_for_all(cache: Cache) -> None:
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
        visit = await cache.visit((), ())
        return await visit.find(QUESTION, read, TEXT)

    first = asyncio.create_task(ask_once())
    await reading.wait()
    stored = "new"
    later = [asyncio.create_task(ask_once()) for _ in range(100)]
    for _ in range(20):
        await asyncio.sleep(0)
    let_go.set()
    assert await first == "old"
    # None is given what was read before it asked.
    assert await asyncio.gather(*later) == ["new"] * 100
    assert begun == 2
