"""The quarantine on the page of its test."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

from indexing.models.quarantines import QuarantineRequest, QuarantineSource
from tests.builders import WIDGETS, after
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.signed_in import read, sign_in

QUARANTINES = "/ui/acme/widgets/quarantines"


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


async def test_more_than_a_hundred_quarantines_are_on_their_own_page(
    client: Client,
) -> None:
    # As many as people can add, and one that the rules added.
    requests = [QuarantineRequest(FLAKY, "r", branch=f"release/{n}") for n in range(100)]
    requests.append(QuarantineRequest(FLAKY, "r", source=QuarantineSource.AUTO))
    for request in requests:
        await client.door.store.add_quarantine(WIDGETS, request, after(days=-1))
    panel = panel_of(await read(client, page_of(FLAKY)))
    assert panel.count("Owner nobody") == 100
    assert "The first 100; the rest is on the page of quarantines" in panel


async def test_a_quarantine_of_one_branch_leaves_room_for_others(client: Client) -> None:
    store, place = client.door.store, page_of(FLAKY)
    await store.add_quarantine(WIDGETS, QuarantineRequest(FLAKY, "r", "release/*"), after(days=-1))
    page = await read(client, place)
    assert 'href="#quarantine"' in page
    assert "On every other branch, a failure stops a merge." in panel_of(page)
    sent = {"csrf": await client.proof(place), "reason": "r", "branch": "main"}
    assert (await client.post(f"{place}/quarantine", sent)).status == 303
    panel = panel_of(await read(client, place))
    assert "Branch release/*" in panel
    assert "Branch main" in panel

    await store.add_quarantine(WIDGETS, QuarantineRequest(FLAKY, "r"), after(days=-1))
    page = await read(client, place)
    assert 'href="#quarantine"' not in page
    assert "a failure stops a merge" not in panel_of(page)


async def test_a_test_that_is_only_quarantined_is_named(client: Client) -> None:
    await client.door.store.add_quarantine(
        WIDGETS, QuarantineRequest("never::seen", "r"), after(days=-1)
    )
    answer = await client.get(page_of("never::seen"))
    assert answer.status == 404
    assert b"No result of never::seen is known" in answer.body
    assert b"There is no such test" in (await client.get(page_of("never::heard"))).body


async def test_the_address_of_a_refused_form_leads_to_its_page(client: Client) -> None:
    place = page_of(FLAKY)
    refused = await client.post(f"{place}/quarantine", {"csrf": await client.proof(place)})
    assert refused.status == 422
    again = await client.get(f"{place}/quarantine")
    assert (again.status, again.headers["Location"]) == (303, f"{place}#quarantine")
    again = await client.get(f"{QUARANTINES}/end")
    assert (again.status, again.headers["Location"]) == (303, QUARANTINES)


@pytest.mark.parametrize("form", [f"{page_of(FLAKY)}/quarantine", f"{QUARANTINES}/end"])
async def test_a_form_that_is_sent_too_late_leads_back_to_its_page(
    client: Client, form: str
) -> None:
    client.cookies.clear()
    answer = await client.post(form, {"reason": "r"})
    assert answer.status == 303
    target = unquote(answer.headers["Location"])
    assert target == f"/ui/sign-in?next={form.rpartition('/')[0].removeprefix('/ui/')}"
