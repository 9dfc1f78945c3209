"""The quarantine on the page of its test."""

from __future__ import annotations

import re

import pytest

from indexing.models.quarantines import QuarantineRequest
from tests.builders import WIDGETS, after
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.signed_in import read, sign_in
from tests.service.ui.test_sessions import Client


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    await load_shown(door.store)
    return await sign_in(door)


def panel_of(page: str) -> str:
    """Return the text of the quarantine, without its markup."""
    panel = page.partition('id="quarantine"')[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", panel).split())


async def test_what_was_entered_there_is_shown_there(client: Client) -> None:
    place = page_of(FLAKY)
    fields = {"reason": "waits for a spring", "owner": "<mona>", "days": "14"}
    sent = {"csrf": await client.proof(place), **fields}
    assert (await client.post(f"{place}/quarantine", sent)).status == 303
    panel = panel_of(await read(client, place))
    assert "Owner &lt;mona&gt;" in panel
    assert "Ends in 14 d" in panel


async def test_neither_owner_nor_end_is_said_too(client: Client) -> None:
    await client.door.store.add_quarantine(WIDGETS, QuarantineRequest(FLAKY, "r"), after(days=-1))
    panel = panel_of(await read(client, page_of(FLAKY)))
    assert "Owner nobody" in panel
    assert "Ends never" in panel


async def test_quarantines_for_more_than_a_hundred_branches_are_on_their_own_page(
    client: Client,
) -> None:
    for number in range(101):
        request = QuarantineRequest(FLAKY, "r", branch=f"release/{number}")
        await client.door.store.add_quarantine(WIDGETS, request, after(days=-1))
    panel = panel_of(await read(client, page_of(FLAKY)))
    assert panel.count("Owner nobody") == 100
    assert "The first 100; the rest is on the page of quarantines" in panel
