"""Exports of the dashboard: whole as long as their session lasts, and broken off after it."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from indexing.models.keys import Scope
from service.handlers.row_stream import ROWS_AT_ONCE
from service.streaming import lasting_access
from tests.builders import NOON, after, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.signed_in import sign_in

COUNT = 2 * ROWS_AT_ONCE + 7
LINES = "/ui/acme/widgets/events.ndjson"


@pytest.fixture
async def client(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A signed-in client, whose access is checked at each piece of an export."""
    monkeypatch.setattr(lasting_access, "CHECK_SECONDS", 0.0)
    door.clock.now = after(hours=1)
    await door.store.write_events(
        [make_event(number, after(seconds=number)) for number in range(COUNT)]
    )
    return await sign_in(door, Scope.READ, "export")


async def test_an_export_of_several_pages_is_whole(client: Client) -> None:
    exported = await client.get(LINES)
    assert (exported.status, len(exported.body.splitlines())) == (200, COUNT)


@pytest.mark.parametrize("name", ["tests.csv", "events.csv", "events.ndjson"])
async def test_an_export_is_a_file_that_no_cache_keeps(client: Client, name: str) -> None:
    headers = (await client.get(f"/ui/acme/widgets/{name}")).headers
    assert headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert headers["Cache-Control"] == "no-store"


async def test_an_export_breaks_off_after_its_key_is_revoked(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = type(client.door.reader)
    read, pages = reader.list_events, 0

    async def revoke_meanwhile(*about: Any) -> Any:
        nonlocal pages
        pages += 1
        if pages == 2:
            await client.door.store.revoke_key("export", NOON)
        return await read(*about)

    monkeypatch.setattr(reader, "list_events", revoke_meanwhile)
    with pytest.raises(aiohttp.ClientError):
        await client.get(LINES)
    assert pages == 2
