"""Follows the event log as a browser does, without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from tests.service.ui.client import Client
from tests.service.ui.logged import LOG

TAIL = f"{LOG}/stream"


@asynccontextmanager
async def tail(client: Client, **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    url = client.door.base + TAIL
    async with (
        asyncio.timeout(20),
        client.door.client.get(
            url, headers={"Cookie": cookie, **headers}, allow_redirects=False
        ) as answer,
    ):
        yield answer


async def read_until(answer: aiohttp.ClientResponse, text: bytes) -> bytes:
    read = b""
    while text not in read:
        line = await answer.content.readline()
        assert line, read
        read += line
    return read
