"""What one process writes shows in the responses of others, whatever they have cached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from service.auth.api_keys import digest_key
from service.cache import session as cache
from service.cache.keys import Kind
from service.middleware import response_cache
from tests.service.cache.quarantining import add, listed
from tests.service.conftest import EVERY_STACK, open_door
from tests.service.front_door import QUARANTINES, FrontDoor
from tests.service.processes import TIMEOUT

# Without Redis, a process cannot notice that another one wrote to Elasticsearch.
TOLD_AT_ONCE = pytest.mark.parametrize(
    "stack", [stack for stack in EVERY_STACK if stack != "elasticsearch"], indirect=True
)


@TOLD_AT_ONCE
async def test_what_a_command_writes_in_another_process_shows_at_once(door: FrontDoor) -> None:
    assert await listed(door) == await listed(door) == []
    about = ("--repository", "acme/widgets")
    made = await door.command("quarantine", "add", *about, "--test", "hinge", "--reason", "flaps")
    assert await listed(door) == [made]
    await door.command("quarantine", "remove", *about, made)
    assert await listed(door) == []


@TOLD_AT_ONCE
async def test_a_key_that_a_command_revokes_stops_at_once(door: FrontDoor) -> None:
    assert await listed(door) == []
    record = await door.store.find_key(digest_key(door.key))
    assert record is not None
    await door.command("keys", "revoke", record.id)
    assert (await door.get(QUARANTINES)).status == 403


@pytest.fixture
async def replica(door: FrontDoor) -> AsyncIterator[FrontDoor]:
    """Another service over the same store, and the same Redis if there is one."""
    async for opened in open_door(door.settings):
        yield opened


@TOLD_AT_ONCE
async def test_what_one_replica_writes_shows_at_the_others_at_once(
    door: FrontDoor, replica: FrontDoor
) -> None:
    for number in range(5):
        for each in (door, replica):
            assert len(await listed(each, "per_page=20")) == number
        await add((door, replica)[number % 2], f"hinge {number}")


@pytest.mark.parametrize("stack", ["elasticsearch"], indirect=True)
async def test_a_write_without_invalidation_shows_when_cached_values_expire(
    door: FrontDoor, replica: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LIFETIMES", dict.fromkeys(Kind, 0.2))
    monkeypatch.setattr(response_cache, "RESPONSE_LIFETIME", 0.3)
    assert await listed(replica) == []
    made = await add(door)
    async with asyncio.timeout(TIMEOUT):
        while await listed(replica) == []:
            pass
    assert await listed(replica) == [made]
