"""Forms keep the view that they are on, also what they do not show."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

import pytest

from indexing.models.quarantines import QuarantineRequest
from tests.builders import NOON, WIDGETS, after
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.shown import FLAKY, HEALTHY, load_shown
from tests.service.ui.signed_in import read, sign_in

QUARANTINES = "/ui/acme/widgets/quarantines"


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    return await sign_in(door)


def hidden_in(page: str) -> list[tuple[str, str]]:
    """Return the hidden fields of the first form with filters."""
    form = page.partition('<form class="filters"')[2].partition("</form>")[0]
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return [(name, unescape(value)) for name, value in found]


async def test_the_list_of_tests_keeps_filters_that_its_form_does_not_show(client: Client) -> None:
    await load_shown(client.door.store)
    shown = "test_name=*a*&pipeline_name=ci&health_status=flaky&quarantined=false&sort=job_name"
    kept = (
        "test_name=*%22b*&test_name_exclude=*slow*&pipeline_name=cd&job_name_exclude=mac"
        "&health_status_exclude=healthy&test_filepath_exclude=unknown&owner=@web&owner=@ops"
    )
    page = await read(client, f"/ui/acme/widgets/tests?{shown}&{kept}&per_page=7&include=total")
    assert sorted(hidden_in(page)) == [
        ("health_status_exclude", "healthy"),
        ("job_name_exclude", "mac"),
        ("owner", "@ops"),
        ("pipeline_name", "cd"),
        ("test_name", '*"b*'),
        ("test_name_exclude", "*slow*"),
    ]


async def test_spaces_around_a_copied_name_do_not_hide_the_test(client: Client) -> None:
    await load_shown(client.door.store)
    page = await read(client, f"/ui/acme/widgets/tests?test_name={quote(f' {FLAKY}  ')}")
    assert "2 rows" in page
    # In a glob they are as they are written.
    assert "No test matches" in await read(client, "/ui/acme/widgets/tests?test_name=*hinge%20*")


async def test_ending_quarantines_keeps_the_view(client: Client) -> None:
    store = client.door.store
    await load_shown(store)
    await store.add_quarantine(WIDGETS, QuarantineRequest(FLAKY, "r", branch="main"), NOON)
    page = await read(client, f"{QUARANTINES}?branch=main&source=manual")
    form = page.partition('aria-label="Quarantined tests"')[2]
    (chosen,) = re.findall(r'type="checkbox" name="id" value="([^"]+)"', form)
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form))
    answer = await client.post(f"{QUARANTINES}/end", {**fields, "id": chosen})
    place = urlsplit(answer.headers["Location"])
    assert place.path == QUARANTINES
    assert dict(parse_qsl(place.query)) == {"branch": "main", "source": "manual", "ended": "1"}


async def test_ending_the_last_quarantine_of_a_page_shows_the_others(client: Client) -> None:
    for number in range(101):
        request = QuarantineRequest(f"test {number}", "r")
        await client.door.store.add_quarantine(WIDGETS, request, after(days=-number))
    first = await read(client, QUARANTINES)
    following = urljoin(QUARANTINES, unescape(re.findall(r'href="([^"]*cursor=[^"]*)"', first)[0]))
    form = (await read(client, following)).partition('aria-label="Quarantined tests"')[2]
    (chosen,) = re.findall(r'type="checkbox" name="id" value="([^"]+)"', form)
    fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form))
    answer = await client.post(f"{QUARANTINES}/end", {**fields, "id": chosen})
    assert "100 on this page" in await read(client, answer.headers["Location"])


async def test_recovered_tests_of_later_pages_are_named_too(client: Client) -> None:
    store = client.door.store
    await load_shown(store, days=30)
    for number in range(101):
        request = QuarantineRequest(f"unknown {number}", "r")
        await store.add_quarantine(WIDGETS, request, after(days=-29))
    await store.add_quarantine(WIDGETS, QuarantineRequest(HEALTHY, "r"), after(days=-28))
    overview = await read(client, "/ui/acme/widgets")
    assert "1 may leave" in overview
    first = await read(client, QUARANTINES)
    assert HEALTHY in first.partition("Recovered too, on other pages:")[2]
    following = re.findall(r'href="([^"]*cursor=[^"]*)"', first)[0]
    second = await read(client, urljoin(QUARANTINES, unescape(following)))
    assert "Recovered: may leave" in second
    assert "on other pages" not in second
