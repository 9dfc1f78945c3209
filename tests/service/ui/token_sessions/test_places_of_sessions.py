"""Sessions of tokens across processes, and what counts as a request of the token."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from service.config.settings import Settings
from service.ui.token_sessions import MAX_SESSIONS
from tests.builders import FOREIGN, GADGETS, WIDGETS, after, load_names, make_event
from tests.service.conftest import open_door
from tests.service.ui.client import Client
from tests.service.ui.tailing import read_until, tail
from tests.service.ui.token_sessions.conftest import (
    HOME,
    NO_REDIS,
    OTHER,
    TOKEN,
    drop_sessions,
    is_open,
    move,
    sign_in,
    signed_in,
)
from tests.source_host import SourceHost, open_host


async def test_sessions_survive_a_restart_and_are_known_to_all_processes(
    stack: Settings,
) -> None:
    async for one in open_door(stack):
        client = await signed_in(one)
        async for other in open_door(stack):
            assert await is_open(move(client, other))
    async for restarted in open_door(stack):
        moved = move(client, restarted)
        assert await is_open(moved)
        await moved.post("/ui/sign-out", {"csrf": await moved.proof("/ui/")})
    async for again in open_door(stack):
        assert not await is_open(move(client, again))


async def test_a_lost_session_leads_to_the_form_with_a_plain_message(
    client: Client, stack: Settings
) -> None:
    await sign_in(client)
    assert await drop_sessions(client.door) == 1
    lost = await client.get("/ui/acme/widgets/tests?health=flaky")
    assert lost.status == 303
    form = await client.get(lost.headers["Location"])
    assert b"or the service no longer knows the session. Sign in again." in form.body
    # The form knows the repository already.
    assert b'value="acme/widgets"' in form.body
    assert lost.headers["Location"].startswith("/ui/sign-in?next=acme%2Fwidgets%2Ftests%3Fhealth")


async def test_another_host_is_never_sent_the_token(stack: Settings, host: SourceHost) -> None:
    async for door in open_door(stack):
        client = await signed_in(door)
    async with open_host() as other:
        other.add("acme/widgets", TOKEN)
        async for door in open_door(replace(stack, host_api_url=other.base)):
            assert not await is_open(move(client, door))
        assert other.asked == []
    async for door in open_door(stack):
        assert await is_open(move(client, door))


async def test_one_token_ends_no_session_of_another_however_often_it_signs_in(
    stack: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.cache.local_values.MAX_FILES", MAX_SESSIONS + 1)
    async for door in open_door(stack):
        victim = await signed_in(door, OTHER, "umbrella/widgets")
        own = [await signed_in(door) for _ in range(MAX_SESSIONS + 3)]
        assert await is_open(victim)
        assert [await is_open(each) for each in own].count(True) == MAX_SESSIONS
        assert await is_open(own[-1])
        # To sign out from a session that has ended leaves the one in its place.
        for each in own[:-1]:
            await each.post("/ui/sign-out", {"csrf": await each.proof("/ui/sign-in")})
        assert await is_open(own[-1])
        assert await drop_sessions(door) == 2


async def test_a_browser_that_signs_in_again_takes_its_own_place(stack: Settings) -> None:
    async for door in open_door(stack):
        browsers = [await signed_in(door) for _ in range(MAX_SESSIONS)]
        for _ in range(3):
            assert (await sign_in(browsers[0])).status == 303
        assert [await is_open(each) for each in browsers].count(True) == MAX_SESSIONS


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_without_its_redis_no_session_of_a_token_begins_but_that_of_a_key(
    stack: Settings,
) -> None:
    async for door in open_door(replace(stack, redis_url=NO_REDIS)):
        client = Client(door)
        refused = await sign_in(client)
        assert refused.status == 503
        assert b"The sessions of tokens are unavailable" in refused.body
        assert (await client.sign_in(door.key)).status == 303


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_a_redis_that_fails_signs_nobody_out(
    stack: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.cache.redis_connection import RedisConnection

    async def fail(*_: object) -> Any:
        return None

    async for door in open_door(replace(stack, redis_url=redis_url)):
        client = await signed_in(door)
        with monkeypatch.context() as broken:
            broken.setattr(RedisConnection, "get", fail)
            down = await client.get("/ui/")
            assert (down.status, b"The sessions of tokens" in down.body) == (503, True)
        assert await is_open(client)


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_requests_of_a_session_count_as_those_of_its_token(
    stack: Settings, host: SourceHost
) -> None:
    async for door in open_door(replace(stack, rate_limit="4/hour")):
        client = await signed_in(door)
        assert await is_open(client)
        assert (await door.get("/v1/repos/acme/widgets/logs", key=TOKEN)).status == 200
        assert await is_open(client)
        asked = len(host.asked)
        door.clock.now = after(minutes=2)
        spent = await client.get("/ui/")
        assert (spent.status, len(host.asked)) == (429, asked)
        assert (await client.sign_in(TOKEN, repository=HOME)).status == 429


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_the_first_page_opens_a_repository_by_name(client: Client) -> None:
    await sign_in(client)
    opened = await client.get("/ui/?repository=acme%2Fgadgets")
    assert (opened.status, opened.headers["Location"]) == (303, "/ui/acme/gadgets")
    for wrong in ("acme", "a/b/c", "//evil.example", "acme/..", '"><img src=x>', "x" * 1_000):
        refused = await client.get(f"/ui/?repository={wrong}")
        assert (refused.status, b"<img" in refused.body) == (422, False)
    by_key = Client(client.door)
    await by_key.sign_in()
    assert b"Open a repository" not in (await by_key.get("/ui/")).body


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_a_call_from_the_reference_is_checked_for_the_repository_that_it_names(
    client: Client, host: SourceHost
) -> None:
    await load_names(client.door.store, ["test_of_gadgets"], repository=GADGETS)
    host.add("acme/gadgets", TOKEN)
    await client.door.store.ensure_repository(FOREIGN)
    await sign_in(client)

    async def try_search(repository: str) -> bytes:
        owner, _, name = repository.partition("/")
        document = (await client.door.ask("/openapi.json", {})).json
        operation = next(
            found["get"]["operationId"]
            for path, found in document["paths"].items()
            if path.endswith("/search/tests")
        )
        query = f"operation={operation}&try=1&owner={owner}&test_name=*&repository={name}"
        return (await client.get(f"/ui/docs?{query}&repository_name={name}")).body

    assert b"test_of_gadgets" in await try_search("acme/gadgets")
    for hidden in ("umbrella/widgets", "umbrella/absent"):
        assert b"there is no such repository" in await try_search(hidden)


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_a_live_tail_ends_once_the_token_is_revoked(
    client: Client, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.streaming.lasting_access.CHECK_SECONDS", 0.02)
    await client.door.store.ensure_repository(WIDGETS)
    await sign_in(client)
    async with tail(client) as answer:
        assert answer.status == 200
        host.readable.pop(TOKEN)
        client.door.clock.now = after(seconds=60)
        await answer.read()
    async with tail(client) as answer:
        assert answer.status == 303


@pytest.mark.parametrize("stack", ["redis"], indirect=True)
async def test_a_live_tail_goes_on_while_redis_does_not_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.cache.redis_connection import RedisConnection

    monkeypatch.setattr("service.streaming.lasting_access.CHECK_SECONDS", 0.02)
    checked = asyncio.Event()

    async def fail(_connection: object, keys: tuple[bytes, ...]) -> Any:
        if any(b":confirmed:" in key for key in keys):
            checked.set()

    await client.door.store.ensure_repository(WIDGETS)
    await sign_in(client)
    async with tail(client) as answer:
        await read_until(answer, b"retry")
        with monkeypatch.context() as broken:
            broken.setattr(RedisConnection, "get", fail)
            await checked.wait()
            await client.door.store.write_events([make_event(1)])
            await read_until(answer, b'"id":1,')
