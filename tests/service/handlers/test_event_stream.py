"""GET /v1/repos/{owner}/{repository}/logs/stream."""

from __future__ import annotations

import asyncio
import time

import pytest

from indexing.identifiers import derive_repository_id
from indexing.models.arrivals import ArrivalKey
from indexing.store.elasticsearch import arrivals
from service.context import LIFECYCLE
from service.handlers import event_stream
from service.handlers.event_stream import ARRIVALS, EVENT_STREAMS
from service.middleware import fair_queue
from service.streaming import hub, lasting_access, unsent_events
from tests.builders import FOREIGN, GADGETS, NOON, WIDGETS, after, make_event
from tests.service.front_door import LOGS, FrontDoor
from tests.service.handlers.opened_streams import (
    STREAM,
    await_arrivals,
    find_first_id,
    opened,
    settle,
)
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("quick_polls")


async def test_events_come_as_they_arrive(door: FrontDoor) -> None:
    # The second one makes the index of its month, which takes long on a busy cluster. Events of a
    # slow write arrive later than others.
    await door.store.write_events([make_event(1), make_event(4, after(days=-100))])
    await await_arrivals(door, 2)
    async with opened(door) as stream:
        assert stream.answer.headers["Content-Type"] == "text/event-stream"
        assert stream.answer.headers["X-Request-Id"]
        assert stream.answer.headers["Cache-Control"] == "private, no-cache"
        await settle(door, 1)
        late = make_event(2, after(days=-100), metadata={"text": "a\nb\u2028c\r"})
        await door.store.ensure_repository(FOREIGN)
        await door.store.write_events(
            [late, make_event(9, repository=GADGETS), make_event(8, repository=FOREIGN)]
        )
        await door.store.write_events([make_event(3)])
        found = await stream.bodies(2)
        assert found.keys() == {2, 3}
        assert found[2] == late.body
    assert stream.retry == "2000"


async def test_a_stream_resumes_after_the_last_event_that_was_received(door: FrontDoor) -> None:
    async with opened(door) as stream:
        await stream.answer.content.readuntil(b"\n\n")
        await settle(door, 1)
        await door.store.write_events([make_event(n, after(hours=-n)) for n in range(5)])
        assert await stream.ids(3) == [0, 1, 2]
    await door.store.write_events([make_event(n, after(hours=-n)) for n in range(5, 1_300)])
    async with opened(door, Last_Event_ID=stream.last_id) as resumed:
        resumed.follow(stream)
        assert await resumed.ids(1_297) == [*range(3, 1_300)]
        await door.store.write_events([make_event(5_000)])
        assert await resumed.ids(1) == [5_000]


async def test_a_client_without_an_event_resumes_where_it_began(door: FrontDoor) -> None:
    last_id = await find_first_id(door)
    await door.store.write_events([make_event(7)])
    async with opened(door, Last_Event_ID=last_id) as stream:
        assert await stream.ids(1) == [7]


async def test_an_id_of_another_repository_is_refused(door: FrontDoor) -> None:
    last_id = await find_first_id(door)
    other = await door.get(STREAM.replace("widgets", "gadgets"), **{"Last-Event-ID": last_id})
    assert other.status == 400
    assert (await door.get(STREAM, method="HEAD", **{"Last-Event-ID": last_id})).status == 200


async def test_ids_do_not_reveal_how_much_others_send(door: FrontDoor) -> None:
    firsts = []
    for _ in range(2):
        async with opened(door) as stream:
            firsts.append(await stream.answer.content.readuntil(b"\n\n"))
    # The ids do not even show whether other repositories got events in between.
    assert firsts[0] != firsts[1]
    async with opened(door) as one, opened(door) as other:
        await settle(door, 2)
        await door.store.write_events([make_event(1)])
        assert await one.ids(1) == await other.ids(1)
        # All readers of a repository know an event by the same id.
        assert one.last_id == other.last_id


async def test_an_id_beyond_the_store_goes_on_from_now(door: FrontDoor) -> None:
    ids = door.app[ARRIVALS].ids
    beyond = ids.write(derive_repository_id(WIDGETS), ArrivalKey(2**62, 1, 1))
    async with opened(door, Last_Event_ID=beyond) as stream:
        await settle(door, 1)
        await door.store.write_events([make_event(1)])
        assert await stream.ids(1) == [1]


async def test_streams_go_on_after_the_clock_was_put_back(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 3_600
    monkeypatch.setattr(arrivals, "_now", lambda: (time.time_ns() // 1_000) + ahead * 1_000_000)
    async with opened(door) as stream, opened(door) as other:
        await settle(door, 2)
        await door.store.write_events([make_event(1)])
        assert await stream.ids(1) == [1]
        ahead = 0
        polls = door.app[ARRIVALS].polls
        await until(lambda: door.app[ARRIVALS].polls > polls + 1)
        await door.store.write_events([make_event(2)])
        assert await stream.ids(1) == [2]
        assert await other.ids(2) == [1, 2]


async def test_access_is_decided_as_for_any_read(door: FrontDoor) -> None:
    assert (await door.get(STREAM, key="mw_x")).status == 403
    assert (await door.get(STREAM, key=await door.new_key(owner="umbrella"))).status == 404
    assert (await door.get("/v1/repos/acme/absent/logs/stream")).status == 404
    head = await door.get(f"{STREAM}?x=1", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["X-Ignored-Parameters"] == "x"
    assert door.app[EVENT_STREAMS].open == 0


async def test_a_revoked_key_ends_its_streams(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_access, "CHECK_SECONDS", 0.02)
    key = await door.add_key(key_id="short-lived")
    async with opened(door, key) as stream, opened(door) as other:
        await settle(door, 2)
        await door.store.revoke_key("short-lived", NOON)
        async with asyncio.timeout(20):
            while await stream.block() is not None:
                pass
        await door.store.write_events([make_event(1)])
        assert await other.ids(1) == [1]


async def test_an_idle_stream_has_comments(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_access, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(event_stream, "COMMENT_SECONDS", 0.06)
    async with opened(door) as stream, asyncio.timeout(20):
        while stream.comments < 3:
            assert await stream.block() is not None


async def test_streams_end_cleanly_when_the_process_stops(door: FrontDoor) -> None:
    async with opened(door) as stream:
        await settle(door, 1)
        door.app[LIFECYCLE].stopping = True
        async with asyncio.timeout(20):
            rest = await stream.answer.content.read()
        assert rest.endswith(b"retry: 2000\n\n")


async def test_a_stream_holds_no_slot(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "MAX_RUNNING", 1)
    async with opened(door), asyncio.timeout(20):
        await settle(door, 1)
        assert (await door.get(LOGS)).status == 200


async def test_a_slow_reader_is_cut_off_and_resumes(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MAX_QUEUED_BYTES", 1_000)
    monkeypatch.setattr(hub, "EVENTS_AT_ONCE", 3)
    receive = hub.Subscription.receive

    async def receive_late(self: hub.Subscription, seconds: float) -> bytes:
        await until(lambda: self.is_cut_off)
        return await receive(self, seconds)

    monkeypatch.setattr(hub.Subscription, "receive", receive_late)
    async with opened(door) as stream:
        last_id = await stream.first_id()
        await settle(door, 1)
        await door.store.write_events([make_event(n) for n in range(60)])
        assert await stream.is_broken_off()
    monkeypatch.setattr(hub.Subscription, "receive", receive)
    async with opened(door, Last_Event_ID=last_id) as stream:
        assert await stream.ids(60) == [*range(60)]


async def test_a_stream_that_finds_no_room_for_what_it_missed_is_cut_off_and_resumes(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_id = await find_first_id(door)
    await door.store.write_events([make_event(n) for n in range(5)])
    with monkeypatch.context() as patched:
        patched.setattr(unsent_events, "MAX_BYTES_PER_OWNER", 100)
        async with opened(door, Last_Event_ID=last_id) as stream:
            assert await stream.is_broken_off()
    async with opened(door, Last_Event_ID=last_id) as stream:
        assert await stream.ids(5) == [*range(5)]
    await until(lambda: door.app[EVENT_STREAMS].open == 0)
    assert door.app[ARRIVALS].unsent.size == 0


async def test_a_credential_has_a_limit_of_streams(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door.app[EVENT_STREAMS], "_per_principal", 2)
    monkeypatch.setattr(door.app[EVENT_STREAMS], "_most", 3)
    async with opened(door), opened(door):
        refused = await door.get(STREAM)
        assert (refused.status, refused.headers["Retry-After"]) == (429, "5")
        async with opened(door, await door.new_key()):
            refused = await door.get(STREAM, key=await door.new_key())
            assert refused.status == 503
