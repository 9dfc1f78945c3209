"""Cached access decisions: how long they are valid, for whom, and who can read them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis as Client

from service.auth.code_host import cache, client
from service.auth.code_host.cache import AccessCache, Names
from service.auth.code_host.decisions import (
    GRANT_LIFETIME,
    OUTAGE_LIFETIME,
    REFUSAL_LIFETIME,
    AccessDecision,
    Finding,
)
from service.config.settings import Settings
from service.context import CONTEXT
from tests.builders import GADGETS, NOON, WIDGETS, after
from tests.servers.redis import Redis
from tests.service.auth.code_host.tokens import TOKEN, status
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, FrontDoor, operations
from tests.source_host import Saying, SourceHost

JUST_BEFORE = timedelta(microseconds=1)


def revoke(host: SourceHost, *, known: bool) -> int:
    """Take access from the token, which stays `known` or not; return the status from then on."""
    if known:
        host.readable[TOKEN].clear()
        return 404
    del host.readable[TOKEN]
    return 403


async def test_a_grant_is_remembered_for_its_time(door: FrontDoor, host: SourceHost) -> None:
    assert await status(door) == 200
    host.readable[TOKEN].clear()
    door.clock.now = NOON + GRANT_LIFETIME - JUST_BEFORE
    assert await status(door, target=f"{LOGS}?per_page=1") == 200
    assert len(host.asked) == 1
    door.clock.now = NOON + GRANT_LIFETIME
    assert await status(door) == 404


async def test_a_grant_is_as_old_as_its_request(
    door: FrontDoor, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TOTAL_SECONDS", 60.0)
    host.open.clear()
    waiting = asyncio.create_task(status(door))
    await host.arrived.wait()
    door.clock.now = NOON + GRANT_LIFETIME - JUST_BEFORE
    host.open.set()
    assert await waiting == 200
    host.readable[TOKEN].clear()
    door.clock.now = NOON + GRANT_LIFETIME
    assert await status(door) == 404


async def test_a_cached_response_ends_with_the_grant_behind_it(
    door: FrontDoor, host: SourceHost
) -> None:
    quarantines = operations()["quarantines"]
    assert await status(door, target=quarantines) == 200
    host.readable[TOKEN].clear()
    door.clock.now = NOON + GRANT_LIFETIME
    assert await status(door, target=quarantines) == 404


@pytest.mark.parametrize("known", [True, False], ids=["hidden", "bad"])
async def test_a_refusal_is_remembered_for_less_long(
    door: FrontDoor, host: SourceHost, known: bool
) -> None:
    refused = revoke(host, known=known)
    assert await status(door) == refused
    host.add("Acme/Widgets", TOKEN)
    door.clock.now = NOON + REFUSAL_LIFETIME - JUST_BEFORE
    assert await status(door) == refused
    door.clock.now = NOON + REFUSAL_LIFETIME
    assert await status(door) == 200


async def test_a_bad_token_is_checked_once_for_all_repositories(
    door: FrontDoor, host: SourceHost
) -> None:
    for repository in ("widgets", "gadgets", "nothing"):
        assert await status(door, "bad", operations("acme", repository)["events"]) == 403
    assert len(host.asked) == 1


async def test_while_the_host_is_down_a_grant_counts_for_longer_and_nothing_else_does(
    door: FrontDoor, host: SourceHost
) -> None:
    host.readable["hidden"] = set()
    assert (await status(door), await status(door, "hidden")) == (200, 404)
    host.saying = Saying(500)
    door.clock.now = NOON + OUTAGE_LIFETIME - JUST_BEFORE
    assert (await status(door), await status(door, "hidden")) == (200, 503)
    assert await status(door, target=operations("acme", "gadgets")["events"]) == 503
    door.clock.now = NOON + OUTAGE_LIFETIME
    assert await status(door) == 503


@pytest.mark.parametrize("known", [True, False], ids=["hidden", "bad"])
async def test_a_grant_does_not_come_back_after_a_refusal(
    door: FrontDoor, host: SourceHost, known: bool
) -> None:
    assert await status(door) == 200
    refused = revoke(host, known=known)
    door.clock.now = NOON + GRANT_LIFETIME
    assert await status(door) == refused
    host.saying = Saying(500)
    door.clock.now = NOON + GRANT_LIFETIME + REFUSAL_LIFETIME
    assert await status(door) == 503


@pytest.mark.parametrize("known", [True, False], ids=["hidden", "bad"])
async def test_made_up_tokens_bring_no_grant_back_after_a_refusal(
    tmp_path: Path, host: SourceHost, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    # Room for some ten decisions of each kind.
    monkeypatch.setattr(cache, "MAX_BYTES", 20_000)
    async for door in open_door(Settings(data_dir=tmp_path, host_api_url=host.base)):
        assert await status(door) == 200
        refused = revoke(host, known=known)
        door.clock.now = NOON + GRANT_LIFETIME
        assert await status(door) == refused
        for number in range(20):
            assert await status(door, f"made-up-{number}") == 403
        host.saying = Saying(500)
        door.clock.now = NOON + GRANT_LIFETIME + REFUSAL_LIFETIME
        assert await status(door) == 503


async def test_made_up_tokens_bring_no_grant_back_after_a_refusal_for_another_repository(
    tmp_path: Path, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 20_000)
    async for door in open_door(Settings(data_dir=tmp_path, host_api_url=host.base)):
        assert await status(door) == 200
        revoke(host, known=False)
        # One that this token has never read.
        assert await status(door, target=operations("acme", "gadgets")["events"]) == 403
        for number in range(20):
            assert await status(door, f"made-up-{number}") == 403
        host.saying = Saying(500)
        door.clock.now = NOON + GRANT_LIFETIME
        assert await status(door) == 503


@pytest.mark.parametrize("known", [True, False], ids=["hidden", "bad"])
async def test_a_grant_of_a_clock_that_was_ahead_does_not_come_back_after_a_refusal(
    door: FrontDoor, host: SourceHost, known: bool
) -> None:
    door.clock.now = NOON + GRANT_LIFETIME
    # Access to this operation alone is remembered, for some seconds and without a look at the time.
    assert await status(door, target=operations()["quarantines"]) == 200
    door.clock.now = NOON
    refused = revoke(host, known=known)
    assert await status(door) == refused
    door.clock.now = NOON + GRANT_LIFETIME
    assert await status(door) == refused


async def test_a_grant_of_a_clock_that_was_ahead_is_forgotten_for_every_repository(
    door: FrontDoor, host: SourceHost
) -> None:
    await door.store.ensure_repository(GADGETS)
    host.add("acme/gadgets", TOKEN)
    gadgets = operations("acme", "gadgets")
    door.clock.now = NOON + GRANT_LIFETIME
    assert await status(door, target=gadgets["quarantines"]) == 200
    door.clock.now = NOON
    del host.readable[TOKEN]
    assert (await status(door), await status(door, target=gadgets["events"])) == (403, 403)
    door.clock.now = NOON + GRANT_LIFETIME
    assert await status(door, target=gadgets["events"]) == 403


async def test_processes_share_decisions_by_redis(
    tmp_path: Path, host: SourceHost, redis_url: str
) -> None:
    settings = Settings(data_dir=tmp_path, host_api_url=host.base, redis_url=redis_url)
    async for one in open_door(settings):
        async for other in open_door(settings):
            assert (await status(one), await status(one, "bad")) == (200, 403)
            asked = len(host.asked)
            assert (await status(other), await status(other, "bad")) == (200, 403)
            assert len(host.asked) == asked


async def test_an_older_grant_of_another_process_replaces_no_refusal(
    tmp_path: Path, host: SourceHost, redis_url: str
) -> None:
    older = AccessDecision(Finding.READABLE, NOON)
    newer = AccessDecision(Finding.HIDDEN, after(seconds=1))
    settings = Settings(data_dir=tmp_path, host_api_url=host.base, redis_url=redis_url)
    async for door in open_door(settings):
        code_host = door.app[CONTEXT].code_host
        assert code_host is not None
        backend = code_host._cache._backend
        here, there = AccessCache(backend), AccessCache(backend)
        here.keep("name", newer, known=True)
        # Its process was slow: the request is older than that of the refusal.
        there.keep("name", older, known=False)
        assert await AccessCache(backend).find("name", NOON) == older
        assert await here.find("name", after(seconds=30)) == newer


def test_a_decision_is_about_one_code_host() -> None:
    one, other = (Names(b"secret", f"https://{name}.example") for name in "ab")
    assert one.of_token(TOKEN) != other.of_token(TOKEN)
    assert one.of_pair(TOKEN, WIDGETS) != other.of_pair(TOKEN, WIDGETS)


async def test_shared_cache_entries_do_not_reveal_a_token(tmp_path: Path, host: SourceHost) -> None:
    with Redis(tmp_path / "redis") as redis:
        settings = Settings(data_dir=tmp_path, host_api_url=host.base, redis_url=redis.url)
        async for door in open_door(settings):
            assert (await status(door), await status(door, "bad-token")) == (200, 403)
            held = await read_all(redis.url)
            async with Client.from_url(redis.url) as shared:
                left = [await shared.pttl(name) async for name in shared.scan_iter("*host::*")]
    # During an outage of the host, a new process has them too.
    assert min(left) > 1_000 * GRANT_LIFETIME.total_seconds()
    assert any("host::" in name for name in held)
    for text in (*held, *held.values()):
        assert TOKEN not in text
        assert "bad-token" not in text


async def read_all(url: str) -> dict[str, str]:
    async with Client.from_url(url) as client:
        names = [bytes(name).decode() async for name in client.scan_iter()]
        return {name: repr(await client.get(name)) for name in names}
