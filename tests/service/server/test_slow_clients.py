"""Slow clients: slow to send a request, or slow to read the response."""

from __future__ import annotations

import asyncio
import socket

import pytest
from yarl import URL

from indexing.models.quarantines import QuarantineRequest
from service.server import protocol as connection
from tests.builders import WIDGETS, after
from tests.service.front_door import QUARANTINES, FrontDoor

# The sockets know no store.
pytestmark = pytest.mark.parametrize("stack", ["sqlite"], indirect=True)

HEAD = b"GET /health/live HTTP/1.1\r\nHost: a\r\n"


async def connect(door: FrontDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    url = URL(door.base)
    return await asyncio.open_connection(url.host, url.port)


async def is_cut_off(reader: asyncio.StreamReader) -> bool:
    """Whether the connection closes without a response; waits until it closes."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connection, "SEND_SECONDS", 0.2)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("sent", [b"", b"G", HEAD, HEAD + b"X: " + b"a" * 1_000])
async def test_a_request_that_does_not_come_to_its_end_is_not_waited_for(
    door: FrontDoor, sent: bytes
) -> None:
    reader, writer = await connect(door)
    writer.write(sent)
    assert await is_cut_off(reader)
    writer.close()


@pytest.mark.usefixtures("hasty")
async def test_a_byte_now_and_then_gains_no_time(door: FrontDoor) -> None:
    reader, writer = await connect(door)
    writer.write(HEAD + b"X: ")
    ended = asyncio.create_task(is_cut_off(reader))
    while not ended.done():
        writer.write(b"X")
        await asyncio.wait([ended], timeout=0.02)
    assert ended.result()
    writer.close()


@pytest.mark.usefixtures("hasty")
async def test_a_second_request_has_no_more_time_than_the_first(door: FrontDoor) -> None:
    reader, writer = await connect(door)
    writer.write(HEAD + b"\r\n")
    assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
    writer.write(HEAD)
    assert await is_cut_off(reader)
    writer.close()


@pytest.mark.usefixtures("hasty")
async def test_a_client_within_the_keep_alive_timeout_stays_connected(door: FrontDoor) -> None:
    reader, writer = await connect(door)
    for _ in range(2):
        writer.write(HEAD)
        await writer.drain()
        writer.write(b"\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        # Longer than the timeout of a head; shorter than the keep-alive timeout.
        idle = asyncio.create_task(reader.read(1))
        ended, _ = await asyncio.wait([idle], timeout=0.5)
        assert not ended
        idle.cancel()
        await asyncio.wait([idle])
    writer.close()


@pytest.mark.usefixtures("hasty")
async def test_a_response_that_is_not_read_is_dropped(door: FrontDoor) -> None:
    for number in range(400):
        request = QuarantineRequest(f"hinge.{number}", "x" * 8_000)
        await door.store.add_quarantine(WIDGETS, request, after())
    _, writer = await connect(door)
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    transport = writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()
    ask = f"GET {QUARANTINES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {door.key}\r\n\r\n"
    writer.write(ask.encode())
    server = door.runner.server
    assert server is not None
    await writer.drain()
    while len(server.connections) > 1:
        # The client of `door` keeps one connection open.
        await asyncio.wait([asyncio.create_task(door.get("/health/live"))])
    transport.abort()
    assert (await door.get("/health/live")).status == 200
