"""Slow clients: slow to send a request, or slow to read the response."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from yarl import URL

from service.server import protocol as connection
from service.server.protocol import Connection
from tests.service.front_door import QUARANTINES, FrontDoor
from tests.service.processes import TIMEOUT
from tests.service.server.unread_responses import add_long_quarantines, stop_reading
from tests.service.wire import Wire

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
async def test_a_head_that_begins_with_its_connection_is_not_waited_for(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Connection.connection_made

    def make_and_receive(made: Connection, transport: asyncio.BaseTransport) -> None:
        # As uvloop does if data is there when it accepts the connection.
        make(made, transport)
        made.data_received(HEAD)

    monkeypatch.setattr(Connection, "connection_made", make_and_receive)
    reader, writer = await connect(door)
    # Well before the keep-alive timeout.
    assert await asyncio.wait_for(is_cut_off(reader), TIMEOUT / 4)
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
    await add_long_quarantines(door, 400)
    _, writer = await connect(door)
    transport = stop_reading(writer, 4_096)
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


@dataclass
class Unsent:
    """How much of its answers a connection holds at most, until it waits for its client."""

    largest: int = 0
    answers: int = 0
    waits: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for(self, answers: int) -> None:
        """Wait until so many answers were written, or the connection waits."""
        while not self.waits and self.answers < answers:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), TIMEOUT)


@pytest.fixture
def unsent(monkeypatch: pytest.MonkeyPatch) -> Unsent:
    """What is unsent on all connections, whose answers are all raw."""
    unsent = Unsent()
    write, drain = Connection._write_held, Connection._drain_helper

    def count(made: Connection) -> None:
        unsent.answers += made._held is not None
        write(made)
        if made._wire is not None:
            unsent.largest = max(unsent.largest, made._wire.get_write_buffer_size())
        unsent.changed.set()

    async def notice(made: Connection) -> Any:
        unsent.waits = True
        unsent.changed.set()
        return await drain(made)

    monkeypatch.setattr(Connection, "_write_held", count)
    monkeypatch.setattr(Connection, "_drain_helper", notice)
    return unsent


@pytest.mark.parametrize("way", ["parsed", "direct"])
async def test_a_client_that_does_not_read_gets_no_more_answers_until_it_reads(
    door: FrontDoor, unsent: Unsent, way: str
) -> None:
    await add_long_quarantines(door, 100)
    wire = await Wire.open(door)
    sizes = [*range(100, 50, -1)]
    heads = [wire.head(f"{QUARANTINES}?per_page={size}") for size in sizes]
    if way == "direct":
        # Until the service knows the fields.
        for _ in range(2):
            assert (await wire.ask(wire.head(QUARANTINES)))[0] == 200
    unsent.answers = 0
    transport = stop_reading(wire.writer, 256 * 1024)
    sent = [b"".join(heads)] if way == "parsed" else heads
    for number, data in enumerate(sent, 1):
        wire.writer.write(data)
        await unsent.wait_for(len(heads) if way == "parsed" else number)
    assert unsent.waits
    # One answer, and what a transport takes before it pauses.
    assert unsent.largest < 1_000_000
    transport.resume_reading()
    for size in sizes:
        status, _, body = await asyncio.wait_for(wire.read(), TIMEOUT)
        assert (status, len(orjson.loads(body)["quarantined_tests"])) == (200, size)
    assert unsent.largest < 1_000_000
    await wire.close()


class Unread(asyncio.Transport):
    """A transport with so many bytes that its client has not read."""

    size = connection.SEND_MIN_BYTES * 10
    is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.is_aborted = True


async def test_a_client_that_reads_enough_in_time_keeps_its_connection(door: FrontDoor) -> None:
    wire = await Wire.open(door)
    assert (await wire.ask(wire.head("/health/live")))[0] == 200
    made, unread = wire.connection, Unread()
    real, made._wire = made._wire, unread
    made.pause_writing()
    enough = connection.SEND_MIN_BYTES
    for read, is_aborted in ((enough, False), (enough, False), (enough - 1, True)):
        unread.size -= read
        # As when the time for a part of the response has passed.
        made._cut_off()
        assert unread.is_aborted == is_aborted
    made._wire = real
    await wire.close()
