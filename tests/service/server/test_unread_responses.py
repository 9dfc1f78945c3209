"""What waits behind responses that a client does not read ends with their connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from service.handlers.event_stream import EVENT_STREAMS
from tests.service.front_door import LOGS, QUARANTINES, FrontDoor
from tests.service.server.unread_responses import add_long_quarantines, stop_reading
from tests.service.wire import Wire
from tests.waiting import until

# The sockets know no store.
pytestmark = pytest.mark.parametrize("stack", ["sqlite"], indirect=True)


@pytest.fixture
async def wire(door: FrontDoor) -> AsyncIterator[Wire]:
    """A connection of a client that does not read."""
    await add_long_quarantines(door, 400)
    opened = await Wire.open(door)
    stop_reading(opened.writer, 4_096)
    yield opened
    opened.writer.transport.abort()


async def test_a_stream_gives_back_its_place(wire: Wire) -> None:
    streams = wire.door.app[EVENT_STREAMS]
    wire.writer.write(wire.head(QUARANTINES) * 2)
    connection = wire.connection
    await until(lambda: connection._paused)
    wire.writer.write(wire.head(f"{LOGS}/stream"))
    await until(lambda: streams.open == 1)
    wire.writer.transport.abort()
    await until(lambda: streams.open == 0)


async def test_the_end_of_a_process_waits_for_such_a_client_once(wire: Wire) -> None:
    wire.writer.write(wire.head(QUARANTINES) * 4)
    connection = wire.connection
    await until(lambda: connection._paused and connection._request_in_progress)
    loop, seconds = asyncio.get_running_loop(), 3.0
    began = loop.time()
    connection.close()
    await connection.shutdown(seconds)
    assert loop.time() - began < 2 * seconds


async def test_the_end_of_a_process_does_not_cut_off_a_client_that_reads(door: FrontDoor) -> None:
    await add_long_quarantines(door, 400)
    wire = await Wire.open(door)
    transport = stop_reading(wire.writer, 256 * 1024)
    wire.writer.write(wire.head(QUARANTINES) * 3)
    connection = wire.connection
    await until(lambda: connection._paused)
    connection.close()
    ending = asyncio.create_task(connection.shutdown(20.0))
    await asyncio.sleep(0)
    transport.resume_reading()
    assert (await wire.read())[0] == 200
    await ending
    await wire.close()
