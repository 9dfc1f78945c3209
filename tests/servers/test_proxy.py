from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from tests.servers.ports import HOST, reserve
from tests.servers.proxy import (
    Answering,
    Cut,
    Delayed,
    Down,
    Passing,
    Proxy,
    Resetting,
    Silent,
    Trickling,
)

BODY = b"0123456789" * 20
# Longer than any response on a live connection takes.
SHORT = aiohttp.ClientTimeout(total=0.5)


async def answered(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=BODY)


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy in front of an HTTP server that responds to every request with `BODY`."""
    app = web.Application()
    app.router.add_route("*", "/", answered)
    runner = web.AppRunner(app)
    await runner.setup()
    port = reserve()
    await web.TCPSite(runner, HOST, port.number).start()
    async with Proxy(port.number) as started:
        yield started
    await runner.cleanup()
    port.release()


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://{proxy.address}") as session:
        yield session


async def body(client: aiohttp.ClientSession) -> bytes:
    async with client.post("/", data=b"asked") as response:
        return await response.read()


async def test_a_proxy_passes_everything_on(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    assert [await body(client) for _ in range(3)] == [BODY] * 3
    assert proxy.accepted == 1


async def test_a_delayed_answer_comes_whole(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    await body(client)
    await proxy.turn(Delayed(0.2))
    started = asyncio.get_running_loop().time()
    assert await body(client) == BODY
    assert asyncio.get_running_loop().time() - started >= 0.2


async def test_a_trickled_answer_comes_whole(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    await proxy.turn(Trickling(0.0001))
    assert await body(client) == BODY


async def test_half_an_answer_is_all_that_comes_when_it_cuts(
    proxy: Proxy, client: aiohttp.ClientSession
) -> None:
    await proxy.turn(Cut())
    with pytest.raises(aiohttp.ClientPayloadError):
        await body(client)


async def test_it_refuses_when_it_is_down_and_is_back_on_the_same_port(
    proxy: Proxy, client: aiohttp.ClientSession
) -> None:
    await body(client)
    await proxy.turn(Down())
    with pytest.raises(aiohttp.ClientConnectionError):
        await body(client)
    await proxy.turn(Passing())
    assert await body(client) == BODY


@pytest.mark.parametrize("connected", [False, True])
async def test_it_never_answers_when_it_is_silent(
    connected: bool, proxy: Proxy, client: aiohttp.ClientSession
) -> None:
    if connected:
        await body(client)
    await proxy.turn(Silent())
    with pytest.raises(TimeoutError):
        await client.get("/", timeout=SHORT)
    await proxy.turn(Passing())
    assert await body(client) == BODY


async def test_it_resets_connections_that_send_a_request(
    proxy: Proxy, client: aiohttp.ClientSession
) -> None:
    await proxy.turn(Resetting())
    with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
        await body(client)


async def test_it_answers_in_the_server_s_stead(
    proxy: Proxy, client: aiohttp.ClientSession
) -> None:
    await body(client)
    await proxy.turn(Answering(429, retry_after=3))
    for _ in range(2):
        async with client.post("/", data=BODY) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "3")
            assert (await response.json())["status"] == 429
    async with client.post("/", data=_pieces()) as response:
        assert response.status == 429
    await proxy.turn(Passing())
    assert await body(client) == BODY


async def _pieces() -> AsyncIterator[bytes]:
    yield BODY
    yield BODY


async def test_a_server_that_is_gone_is_a_reset() -> None:
    nobody = reserve()
    async with (
        Proxy(nobody.number) as proxy,
        aiohttp.ClientSession(f"http://{proxy.address}") as client,
    ):
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await body(client)
    nobody.release()
