"""Links of pages, followed by plain requests: each leads to what it names, also later."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from urllib.parse import urljoin

import pytest

from indexing.models.keys import Scope
from tests.builders import NOON, after, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG, load_log
from tests.service.ui.shown import BROKEN, load_shown, page_of
from tests.service.ui.test_sessions import Client


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    door.key = await door.add_key(name="on call", scope=Scope.QUARANTINE)
    door.client.cookie_jar.clear()
    found = Client(door)
    await found.sign_in()
    return found


async def read(client: Client, path: str) -> str:
    answer = await client.get(path)
    assert answer.status == 200, (path, answer.body)
    return answer.body.decode()


def links_in(page: str, pattern: str) -> list[str]:
    """Return the targets of the links that match, in their order."""
    return [unescape(each) for each in re.findall(rf'href="({pattern})"', page)]


@pytest.mark.parametrize("view", ["", "?received_to=2026-09-02", "?pull_request=444&last=30d"])
async def test_the_link_of_an_event_leads_to_it_after_newer_ones_arrived(
    client: Client, view: str
) -> None:
    await load_log(client.door.store)
    page = await read(client, LOG + view)
    newest, *_, oldest = links_in(page, r"[^\"]*#e\d+")
    newer = [
        make_event(2_000 + number, NOON + timedelta(seconds=number), pull_request=444)
        for number in range(60)
    ]
    client.door.clock.now = after(minutes=5)
    await client.door.store.write_events(newer)
    for link in (newest, oldest):
        opened = await read(client, urljoin(LOG, link))
        name = link.partition("#")[2]
        assert f'id="{name}">' in opened
        assert "<details open>" in opened.partition(f'id="{name}">')[2].partition("</td>")[0]


async def test_the_page_of_a_refused_quarantine_leads_on(client: Client) -> None:
    await load_shown(client.door.store, days=30)
    place = page_of(BROKEN)
    sent = {"csrf": await client.proof(place), "reason": "x" * 1_001}
    refused = await client.post(f"{place}/quarantine", sent)
    assert refused.status == 422
    links = links_in(refused.body.decode(), r"[^\"]*\?(?!v=)[^\"]*")
    assert any("cursor=" in each for each in links)
    assert any("commit=" in each for each in links)
    for link in {each.partition("#")[0] for each in links}:
        await read(client, urljoin(f"{place}/quarantine", link))


def count_executions(page: str) -> int:
    return page.partition("<caption>Executions, newest first")[2].count('<tr role="row"><td')


async def test_verdicts_of_a_test_that_has_not_run_lately_lead_to_their_executions(
    client: Client,
) -> None:
    await load_shown(client.door.store)
    client.door.clock.now = after(days=40)
    await client.sign_in()
    place = page_of(BROKEN)
    page = await read(client, place)
    verdicts = links_in(page, r"[^\"]*commit=[^\"]*")
    assert len(verdicts) == 28
    for link in verdicts:
        assert count_executions(await read(client, link.partition("#")[0])) == 1
    assert "None of the last 30 days matches" in page
    [newest] = links_in(page, r"[^\"]*tests/[^\"?]*\?start=[^\"]*")
    assert count_executions(await read(client, newest.partition("#")[0])) == 20


async def test_verdicts_of_these_days_have_short_links(client: Client) -> None:
    await load_shown(client.door.store)
    page = await read(client, page_of(BROKEN))
    verdicts = links_in(page, r"[^\"]*commit=[^\"]*")
    assert not any("start=" in each for each in verdicts)
    assert count_executions(await read(client, verdicts[0].partition("#")[0])) == 1
