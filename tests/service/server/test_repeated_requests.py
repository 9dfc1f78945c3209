"""Requests that repeat an earlier one byte for byte get the current response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from yarl import URL

from indexing.identifiers import derive_test_id
from indexing.models.quarantines import QuarantineRequest
from service.cache.backend import Versions
from service.context import LIFECYCLE
from service.middleware.response_cache import RESPONSE_CACHE
from service.middleware.unparsed_requests import DIRECT_READS, REPEATED_REQUESTS
from service.server.protocol import Connection
from tests.builders import NOON, WIDGETS, after, load_names
from tests.service.conftest import on_every_stack
from tests.service.front_door import QUARANTINES, TESTS, FrontDoor
from tests.service.processes import TIMEOUT
from tests.service.wire import HINGE, Wire


@pytest.fixture
async def wire(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wire]:
    await load_names(door.store, ["hinge"])
    opened = await Wire.open(door)
    known = door.app[REPEATED_REQUESTS]
    answer = known.answer

    def count(head: bytes) -> bytes | None:
        text = answer(head)
        opened.unparsed += text is not None
        return text

    monkeypatch.setattr(known, "answer", count)
    yield opened
    await opened.close()


# With Redis it takes a look-up to tell that a response is valid.
IN_MEMORY = pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)


@IN_MEMORY
async def test_a_repeated_request_is_answered_before_it_is_parsed(wire: Wire) -> None:
    head = wire.head()
    await wire.repeat(head)
    first, second = await wire.ask(head), await wire.ask(head)
    assert wire.unparsed == 2
    usual = await wire.door.get(HINGE)
    assert first[1].pop("x-request-id") != second[1].pop("x-request-id")
    expected = {name.lower(): value for name, value in usual.headers.items()}
    for status, fields, body in (first, second):
        assert (status, body) == (200, usual.body)
        assert {*fields} == {*expected} - {"x-request-id"}
        assert all(fields[name] == expected[name] for name in fields if name != "date")


@on_every_stack
async def test_a_write_shows_in_the_next_answer(wire: Wire) -> None:
    head = wire.head(QUARANTINES)
    await wire.repeat(head)
    await wire.door.store.add_quarantine(WIDGETS, QuarantineRequest("hinge", "flaps"), NOON)
    assert b"flaps" in (await wire.ask(head))[2]


@on_every_stack
async def test_a_revoked_key_is_refused_at_once(wire: Wire) -> None:
    door = wire.door
    door.key = await door.add_key(key_id="k1")
    head = wire.head()
    await wire.repeat(head)
    await door.store.revoke_key("k1", after())
    assert (await wire.ask(head))[0] == 403


@on_every_stack
async def test_an_expired_key_and_an_expired_quarantine_are_gone(wire: Wire) -> None:
    door = wire.door
    request = QuarantineRequest("hinge", "flaps", expires_at=after(hours=1))
    await door.store.add_quarantine(WIDGETS, request, NOON)
    door.key = await door.add_key(expires_at=after(hours=2))
    head = wire.head(QUARANTINES)
    await wire.repeat(head)
    door.clock.now = after(hours=1)
    assert b"flaps" not in (await wire.ask(head))[2]
    door.clock.now = after(hours=2)
    assert (await wire.ask(head))[0] == 403


@IN_MEMORY
async def test_a_poll_without_changes_gets_304(wire: Wire) -> None:
    tag = (await wire.ask(wire.head()))[1]["etag"]
    head = wire.head(HINGE, f"If-None-Match: {tag}")
    await wire.repeat(head)
    status, fields, body = await wire.ask(head)
    assert (wire.unparsed, status, fields["etag"], body) == (1, 304, tag, b"")


@IN_MEMORY
@pytest.mark.parametrize(
    "field",
    ["X-Request-Id: mine", "Content-Length: 5", "Connection: close", "Upgrade: h2c", "Expect: x"],
)
async def test_requests_with_more_than_a_head_take_the_usual_way(wire: Wire, field: str) -> None:
    url = URL(wire.door.base)
    head = wire.head(HINGE, field) + (b"hello" if "Length" in field else b"")
    for _ in range(5):
        await wire.close()
        wire.reader, wire.writer = await asyncio.open_connection(url.host, url.port)
        _, fields, _ = await wire.ask(head)
        if "mine" in field:
            assert fields["x-request-id"] == "mine"
    assert wire.unparsed == 0


@IN_MEMORY
async def test_bytes_in_other_portions_are_the_same_requests(wire: Wire) -> None:
    head = wire.head()
    await wire.repeat(head)
    # Two at once, one and a half, the other half, and one byte after the other.
    wire.writer.write(head + head)
    assert [(await wire.read())[0] for _ in range(2)] == [200, 200]
    wire.writer.write(head + head[:20])
    assert (await wire.read())[0] == 200
    wire.writer.write(head[20:])
    assert (await wire.read())[0] == 200
    for at in range(len(head)):
        wire.writer.write(head[at : at + 1])
        await asyncio.sleep(0)
    assert (await wire.read())[0] == 200
    for _ in range(2):
        await wire.ask(head)
    assert wire.unparsed == 1


@IN_MEMORY
@pytest.mark.parametrize("part", [b"", b"GET", b"\r\n\r", b"GET / HTTP/1.1\r\n\r"])
async def test_a_part_of_a_head_is_not_a_head(wire: Wire, part: bytes) -> None:
    assert wire.door.app[REPEATED_REQUESTS].digest(part) is None
    assert wire.door.app[DIRECT_READS].read_target(part) is None


@IN_MEMORY
async def test_a_known_head_inside_of_another_request_is_part_of_it(wire: Wire) -> None:
    head = wire.head()
    await wire.repeat(head)
    # Begins a field that the head is the value of; the method makes the second line no field name.
    wire.writer.write(b"GET /health/live HTTP/1.1\r\nHost: a\r\nX-Rest: ")
    await wire.writer.drain()
    await asyncio.wait([asyncio.create_task(wire.door.get("/health/live"))])
    status, _, body = await wire.ask(head)
    assert wire.unparsed == 0
    # `Authorization` and a second `Host` belong to this request now, which is for another path.
    assert status != 200 or b"test_id" not in body


@IN_MEMORY
async def test_a_stopping_process_announces_that_it_closes_the_connection(wire: Wire) -> None:
    head = wire.head()
    await wire.repeat(head)
    wire.door.app[LIFECYCLE].stopping = True
    assert (await wire.ask(head))[1]["connection"] == "close"
    assert wire.unparsed == 0


@IN_MEMORY
async def test_a_request_that_arrives_before_the_last_response_gets_its_own(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = wire.head(HINGE), wire.head(f"{TESTS}/{derive_test_id(WIDGETS, 'unknown')}")
    for _ in range(2):
        assert (await wire.ask(first))[0] == 200
    backend = wire.door.app[RESPONSE_CACHE]._backend
    read_versions, data_received = backend.read_versions, Connection.data_received
    began, arrived = asyncio.Event(), asyncio.Event()

    async def wait(namespaces: tuple[str, ...]) -> Versions | None:
        began.set()
        await arrived.wait()
        return await read_versions(namespaces)

    def notice(connection: Connection, data: bytes) -> None:
        data_received(connection, data)
        if data == second:
            arrived.set()

    monkeypatch.setattr(backend, "read_versions", wait)
    monkeypatch.setattr(Connection, "data_received", notice)
    for _ in range(2):
        began.clear()
        arrived.clear()
        wire.writer.write(first)
        await asyncio.wait_for(began.wait(), TIMEOUT)
        wire.writer.write(second)
        assert [(await wire.read())[0] for _ in range(2)] == [200, 404]
    assert (await wire.ask(second))[0] == 404
