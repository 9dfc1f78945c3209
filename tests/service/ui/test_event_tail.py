"""The live tail by plain requests: it ends when its session or key is no longer valid."""

from __future__ import annotations

from datetime import timedelta

import pytest

from indexing.models.keys import Scope
from service.handlers.event_stream import EVENT_STREAMS
from service.ui.session import LIFETIME
from tests.builders import NOON, WIDGETS, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.signed_in import sign_in
from tests.service.ui.tailing import TAIL, read_until, tail

pytestmark = pytest.mark.usefixtures("quick_log")


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    await door.store.ensure_repository(WIDGETS)
    return await sign_in(door, Scope.READ, "tail")


async def test_a_tail_goes_on_after_the_last_event_that_was_received(client: Client) -> None:
    async with tail(client) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        head = await read_until(answer, b"id: ")
        await client.door.store.write_events([make_event(1)])
        await read_until(answer, b'"id":1,')
    await client.door.store.write_events([make_event(2)])
    last_id = head.partition(b"id: ")[2].strip().decode()
    async with tail(client, **{"Last-Event-ID": last_id}) as answer:
        read = await read_until(answer, b'"id":2,')
        assert b'"id":1,' in read
    async with tail(client, **{"Last-Event-ID": "of another stream"}) as answer:
        assert answer.status == 400


async def test_a_tail_ends_with_its_session(client: Client) -> None:
    async with tail(client) as answer:
        await read_until(answer, b"retry")
        client.door.clock.now = NOON + LIFETIME - timedelta(seconds=1)
        await client.door.store.write_events([make_event(1)])
        await read_until(answer, b'"id":1,')
        client.door.clock.now = NOON + LIFETIME + timedelta(seconds=1)
        assert (await answer.content.read()).endswith(b"retry: 2000\n\n")
    async with tail(client) as answer:
        assert answer.status == 303


async def test_a_tail_ends_with_its_key(client: Client) -> None:
    async with tail(client) as answer:
        await read_until(answer, b"retry")
        await client.door.store.revoke_key("tail", NOON)
        assert (await answer.content.read()).endswith(b"retry: 2000\n\n")


async def test_tails_count_as_streams_of_the_key(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = client.door
    monkeypatch.setattr(door.app[EVENT_STREAMS], "_per_principal", 1)
    async with tail(client) as answer:
        await read_until(answer, b"retry")
        async with tail(client) as refused:
            assert refused.status == 429
        api = await door.get("/v1/repos/acme/widgets/logs/stream")
        assert api.status == 429


async def test_a_tail_needs_access_to_the_repository(client: Client) -> None:
    client.door.key = await client.door.new_key(owner="umbrella")
    await client.sign_in()
    assert (await client.get(TAIL)).status == 404
    client.cookies.clear()
    assert (await client.get(TAIL)).status == 303
