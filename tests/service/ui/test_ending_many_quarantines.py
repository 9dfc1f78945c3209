"""Many quarantines are ended by one form: some of them at once, on both stores."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from indexing.concurrent_works import AT_ONCE
from indexing.errors import StoreUnavailableError
from indexing.models.paging import Anchor
from indexing.models.quarantines import ChangeAction, QuarantineQuery, QuarantineRequest
from service.context import CONTEXT
from tests.builders import NOON, WIDGETS, after, load_names
from tests.service.front_door import Answer, FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.signed_in import read, sign_in

PLACE = "/ui/acme/widgets/quarantines"
NAMES = [f"t{number:02}" for number in range(25)]

pytestmark = pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    await load_names(door.store, NAMES)
    return await sign_in(door)


async def quarantine_all(door: FrontDoor) -> list[str]:
    """Quarantine all tests; return the ids of the quarantines."""
    added = [
        await door.store.add_quarantine(WIDGETS, QuarantineRequest(name, "flaps"), after(days=-1))
        for name in NAMES
    ]
    return [str(each.quarantine.key.id) for each in added]


async def list_left(door: FrontDoor) -> list[str]:
    query = QuarantineQuery(WIDGETS, NOON)
    page = await door.reader.list_quarantines(query, Anchor(), None)
    return [str(row.key.id) for row in page.rows]


async def send(client: Client, ids: list[str]) -> Answer:
    return await client.post(f"{PLACE}/end", {"csrf": await client.proof(PLACE), "id": ids})


async def test_each_one_ends_and_has_its_change(client: Client) -> None:
    door = client.door
    ids = await quarantine_all(door)
    await door.store.remove_quarantine(WIDGETS, uuid.UUID(ids[3]), NOON)
    answer = await send(client, [*ids, ids[0]])
    assert (answer.status, answer.headers["Location"]) == (303, f"{PLACE}?ended=24")
    assert await list_left(door) == []
    assert "Nothing is quarantined" in await read(client, PLACE)
    changes = await door.reader.list_quarantine_changes(WIDGETS, NOON, Anchor(), 100)
    removed = [row.test_name for row in changes.rows if row.action is ChangeAction.REMOVED]
    assert sorted(removed) == NAMES


async def test_at_most_so_many_are_ended_at_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await quarantine_all(client.door)
    writer = client.door.app[CONTEXT].writer
    remove, running, most = writer.remove_quarantine, 0, 0

    async def count(*about: Any) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        done = await remove(*about)
        running -= 1
        return done

    monkeypatch.setattr(writer, "remove_quarantine", count)
    assert (await send(client, ids)).status == 303
    assert most == AT_ONCE


async def test_after_a_failure_what_was_begun_is_finished_and_nothing_else_begins(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = client.door
    ids = await quarantine_all(door)
    writer = door.app[CONTEXT].writer
    remove, has_failed = writer.remove_quarantine, asyncio.Event()

    async def fail(repository: Any, quarantine_id: uuid.UUID, *about: Any) -> bool:
        if str(quarantine_id) == ids[14]:
            has_failed.set()
            raise LookupError("the later one in the form fails first")
        if str(quarantine_id) == ids[12]:
            await has_failed.wait()
            raise StoreUnavailableError("no answer")
        return await remove(repository, quarantine_id, *about)

    with monkeypatch.context() as patch:
        patch.setattr(writer, "remove_quarantine", fail)
        assert (await send(client, ids)).status == 503
    left = await list_left(door)
    assert set(left) == {ids[12], ids[14], *ids[20:]}
    assert (await send(client, left)).headers["Location"] == f"{PLACE}?ended={len(left)}"
    assert await list_left(door) == []
