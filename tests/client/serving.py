"""Servers that answer as a test says, with a client of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from mergewatch.client import AsyncClient
from tests.builders import WIDGETS

REPOSITORY = str(WIDGETS)
TOKEN = "mw_hush"
NAMES = [f"suite.test {number}é%/?" for number in range(250)]

Answerer = Callable[[web.Request], web.Response]


@asynccontextmanager
async def serving(*answers: Answerer) -> AsyncIterator[tuple[AsyncClient, list[web.Request]]]:
    """A client of a server that gives these answers in order, and the requests it received."""
    requests: list[web.Request] = []
    left = list(answers)

    async def take(request: web.Request) -> web.Response:
        requests.append(request)
        return (left.pop(0) if len(left) > 1 else left[0])(request)

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    waits: list[float] = []
    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", take)
    async with (
        TestServer(app) as server,
        AsyncClient(str(server.make_url("")), TOKEN, sleep=wait) as client,
    ):
        yield client, requests


def answer(status: int, text: str = "{}", **headers: str) -> Answerer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.Response(
        status=status, text=text, content_type="application/json", headers=named
    )


@asynccontextmanager
async def serving_bytes(*responses: bytes) -> AsyncIterator[tuple[AsyncClient, list[bytes]]]:
    """A client of a `byte_server`, and the heads of the requests that the server received."""

    async def wait(_: float) -> None:
        pass

    async with (
        byte_server(*responses) as (url, heads),
        AsyncClient(url, TOKEN, sleep=wait) as client,
    ):
        yield client, heads


@asynccontextmanager
async def byte_server(*responses: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """The URL of a server that sends these bytes in order, each on a connection that it closes.

    The last one is not closed, so a client waits there.
    """
    heads: list[bytes] = []
    left = list(responses)
    done = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(left.pop(0))
        await writer.drain()
        if not left:
            await done.wait()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        done.set()
        server.close()


def cut_off(status: str, **headers: str) -> bytes:
    """A response that ends within its body."""
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f'HTTP/1.1 {status}\r\nContent-Length: 99\r\n{fields}\r\n{{"tests": ['.encode()


def chunked(media_type: str, *pieces: bytes, ended: bool) -> bytes:
    """A chunked response, with its last chunk or without."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head.encode() + body + (b"0\r\n\r\n" if ended else b"")
