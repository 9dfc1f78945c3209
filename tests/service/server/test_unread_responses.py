"""What waits behind responses that a client does not read ends with their connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import orjson
import pytest

from service.config.settings import Settings
from service.handlers.event_stream import EVENT_STREAMS
from service.http import raw_response
from service.http.raw_response import SHORT_BODY_BYTES
from service.server import unsent_bodies
from service.server.unsent_bodies import UnsentBodies
from tests.builders import FOREIGN
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, QUARANTINES, FrontDoor
from tests.service.server.unread_responses import add_long_quarantines, stop_reading
from tests.service.ui.client import Client
from tests.service.wire import Wire
from tests.waiting import until

# The sockets know no store.
pytestmark = pytest.mark.parametrize("stack", ["sqlite"], indirect=True)


@pytest.fixture
async def wire(door: FrontDoor) -> AsyncIterator[Wire]:
    """A connection of a client that does not read."""
    await add_long_quarantines(door, 400)
    async with not_reading(door) as opened:
        yield opened


@asynccontextmanager
async def not_reading(door: FrontDoor) -> AsyncIterator[Wire]:
    opened = await Wire.open(door)
    stop_reading(opened.writer, 4_096)
    yield opened
    opened.writer.transport.abort()


async def until_paused(wire: Wire) -> None:
    """Wait until the service has written more than the client and the system take."""
    connection = wire.connection
    await until(lambda: connection._paused)


def unsent_by(wire: Wire) -> int:
    """How much the connection of the service holds of what it has written."""
    transport = wire.connection.transport
    assert transport is not None
    return transport.get_write_buffer_size()


async def test_a_stream_gives_back_its_place(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    # The stream waits behind a response that was written at once.
    monkeypatch.setattr(raw_response, "SHORT_BODY_BYTES", 10_000_000)
    streams = wire.door.app[EVENT_STREAMS]
    wire.writer.write(wire.head(QUARANTINES) * 2)
    await until_paused(wire)
    wire.writer.write(wire.head(f"{LOGS}/stream"))
    await until(lambda: streams.open == 1)
    wire.writer.transport.abort()
    await until(lambda: streams.open == 0)


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
async def test_each_client_holds_a_piece_of_a_response_that_others_get_too(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, version: bytes
) -> None:
    await add_long_quarantines(door, 1_000)
    # All of them have one credential, and the response is shared.
    monkeypatch.setattr(unsent_bodies, "MAX_BYTES_PER_TENANT", 10_000_000)
    async with AsyncExitStack() as opened:
        wires = [await opened.enter_async_context(not_reading(door)) for _ in range(6)]
        for wire in wires:
            # The same bytes again, which need no parser.
            wire.writer.write(wire.head(QUARANTINES).replace(b"HTTP/1.1", version))
            await until_paused(wire)
        sizes = [unsent_by(wire) for wire in wires]
        assert max(sizes) <= 3 * SHORT_BODY_BYTES
        held = wires[0].connection._unsent_bodies
        assert 8_000_000 < held.of_owners.total < 10_000_000
    await until(lambda: held.of_owners.total == 0)


async def test_long_responses_that_are_not_read_are_limited(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    await add_long_quarantines(door, 1_000)
    monkeypatch.setattr(unsent_bodies, "MAX_BYTES_PER_TENANT", 12_000_000)
    door.key = await door.add_key(key_id="slow")
    reading = await Wire.open(door)
    target = f"{QUARANTINES}?source=manual"
    others = (await door.new_key()).encode()
    async with not_reading(door) as wire:
        wire.writer.write(wire.head(QUARANTINES))
        await until_paused(wire)
        # Another credential is not charged, not even before it is known.
        head = reading.head(target).replace(door.key.encode(), others)
        assert (await reading.ask(head))[0] == 200
        status, fields, body = await reading.ask(reading.head(target))
        assert (status, fields["retry-after"]) == (429, "5")
        assert fields["content-type"] == "application/problem+json"
        assert fields["x-request-id"]
        assert b"too many long responses" in body
        (line,) = [each for each in caplog.records if each.name == unsent_bodies.__name__]
        assert vars(line)["principal"] == "key slow"
        # A short one is no matter, on the same connection.
        assert (await reading.ask(reading.head(LOGS)))[0] == 200
    await until(lambda: reading.connection._unsent_bodies.of_owners.total == 0)
    # One alone may be of any length.
    monkeypatch.setattr(unsent_bodies, "MAX_BYTES_PER_TENANT", 1_000)
    assert (await reading.ask(reading.head(target)))[0] == 200
    await reading.close()


async def test_a_shared_body_is_charged_to_those_who_do_not_read_it(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_long_quarantines(door, 1_000)
    monkeypatch.setattr(unsent_bodies, "MAX_BYTES_PER_TENANT", 12_000_000)
    reading = await Wire.open(door)
    others = (await door.new_key()).encode()
    async with AsyncExitStack() as opened:
        first = await opened.enter_async_context(not_reading(door))
        first.writer.write(first.head(QUARANTINES))
        await until_paused(first)
        second = await opened.enter_async_context(not_reading(door))
        second.writer.write(second.head(QUARANTINES).replace(door.key.encode(), others))
        await until_paused(second)
        first.writer.transport.abort()
        target = f"{QUARANTINES}?source=manual"
        held = reading.connection._unsent_bodies
        await until(lambda: len(held.of_tenants.groups) == 1)
        assert (await reading.ask(reading.head(target)))[0] == 200
        head = reading.head(target).replace(door.key.encode(), others)
        assert (await reading.ask(head))[0] == 429
    await until(lambda: reading.connection._unsent_bodies.of_owners.total == 0)
    await reading.close()


async def test_one_owner_leaves_room_to_others(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_bodies, "MAX_BYTES", 12_300_000)
    monkeypatch.setattr(unsent_bodies, "MAX_BYTES_PER_OWNER", 8_500_000)
    await add_long_quarantines(door, 500)
    await add_long_quarantines(door, 20, FOREIGN)
    async with AsyncExitStack() as opened:
        for filters in ("", "?source=manual"):
            wire = await opened.enter_async_context(not_reading(door))
            key = (await door.new_key()).encode()
            # Each of them gets a body of its own.
            head = wire.head(QUARANTINES + filters)
            wire.writer.write(head.replace(door.key.encode(), key))
            await until_paused(wire)
        assert (await door.get(f"{QUARANTINES}?branch=main")).status == 503
        theirs = QUARANTINES.replace("acme", "umbrella")
        answer = await door.get(theirs, key=await door.new_key(owner="umbrella"))
        assert (answer.status, len(answer.body) > SHORT_BODY_BYTES) == (200, True)
        held = wire.connection._unsent_bodies
    await until(lambda: not held.of_owners.groups)


async def test_a_long_response_counts_for_the_owner_of_its_data(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[str] = []
    add = UnsentBodies._add

    def note(made: UnsentBodies, body: bytes, tenant: Hashable, owner: str) -> None:
        owners.append(owner)
        add(made, body, tenant, owner)

    monkeypatch.setattr(UnsentBodies, "_add", note)
    await add_long_quarantines(door, 100)
    client = Client(door)
    await client.sign_in()
    # From the store, then from the caches.
    for _ in range(4):
        await door.get(QUARANTINES)
    await client.get("/ui/acme/widgets/quarantines", **{"Accept-Encoding": "identity"})
    await door.ask("/openapi.json", {})
    assert owners == ["acme"] * 5 + [""]


async def test_a_refusal_keeps_the_headers_that_layers_have_added(
    stack: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_bodies, "MAX_BYTES_PER_OWNER", SHORT_BODY_BYTES)
    settings = replace(stack, rate_limit="9/day", cors_origins=("https://ci.example",))
    async for door in open_door(settings):
        await add_long_quarantines(door, 20)
        answer = await door.get(QUARANTINES, Origin="https://ci.example")
        assert answer.status == 503
        assert answer.headers["RateLimit-Policy"] == '"credential";q=9;w=86400'
        assert answer.headers["RateLimit"].startswith('"credential";r=8;')
        assert answer.headers["Access-Control-Allow-Origin"] == "https://ci.example"
        assert answer.headers["X-Request-Id"]


@pytest.mark.parametrize("field", ["Connection: close", "Connection: keep-alive"])
async def test_a_connection_that_closes_does_not_wait_for_ever(door: FrontDoor, field: str) -> None:
    await add_long_quarantines(door, 1_000)
    async with not_reading(door) as wire:
        connection = wire.connection
        transport = connection.transport
        assert transport is not None
        # The end of a response is written without waiting for the client; here it is all of it.
        transport.set_write_buffer_limits(high=100_000_000)
        wire.writer.write(wire.head(QUARANTINES, field))
        await until(lambda: transport.get_write_buffer_size() > 1_000_000)
        await until(lambda: not connection._unsent_bodies.of_owners.total)
        if field == "Connection: keep-alive":
            connection.force_close()
        await until(lambda: connection._limit is not None)
        # As when that time has passed.
        connection._cut_off()
        await until(lambda: connection._wire is None)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_long_response_arrives_whole(door: FrontDoor, version: str) -> None:
    await add_long_quarantines(door, 400)
    wire = await Wire.open(door)
    head = wire.head(QUARANTINES, "Connection: keep-alive").replace(
        b"HTTP/1.1", b"HTTP/" + version.encode()
    )
    wire.writer.write(head * 3)
    bodies = [(await wire.read())[2] for _ in range(3)]
    assert bodies[0] == bodies[1] == bodies[2]
    assert len(orjson.loads(bodies[0])["quarantined_tests"]) == 400
    await wire.close()


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
