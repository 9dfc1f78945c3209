"""Signing in with a key or a link, and where it leads, by plain requests."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from service.auth.api_keys import digest_key
from service.config.secret import choose_secret
from service.config.settings import LogFormat, LogLevel, Settings
from service.logs import configure_logging
from service.ui.links import make_link
from tests.builders import NOON
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client

AWAY = "http://ci.example"
OVER_TLS = {"Sec-Fetch-Site": "none"}


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    # Cookies are kept by the tests themselves.
    door.client.cookie_jar.clear()
    return Client(door)


async def make_link_of(door: FrontDoor) -> str:
    identity = await door.reader.get_identity()
    key = await door.reader.find_key(digest_key(door.key))
    assert key is not None
    secret = choose_secret(door.settings.secret, identity.cursor_secret)
    return make_link(secret, key.id, door.clock.now)


async def test_over_plain_http_from_another_machine_the_page_says_so(client: Client) -> None:
    shown = await client.get("/ui/sign-in", Host="ci.example")
    assert (shown.status, b"over plain HTTP" in shown.body) == (200, True)
    for headers in (OVER_TLS, {"X-Forwarded-Proto": "HTTPS, http"}):
        safe = await client.get("/ui/sign-in", Host="ci.example", **headers)
        assert b"over plain HTTP" not in safe.body
    # Browsers drop the cookie of such a page.
    client.cookies.clear()
    fields = {"csrf": "x", "key": client.door.key}
    told = await client.post("/ui/sign-in", fields, Host="ci.example", Origin=AWAY)
    assert (told.status, b"over plain HTTP" in told.body) == (403, True)
    assert client.door.key.encode() not in told.body


async def test_a_link_that_is_opened_over_plain_http_is_not_used_up(client: Client) -> None:
    path = f"/ui/sign-in?link={await make_link_of(client.door)}"
    told = await client.get(path, Host="ci.example")
    assert (told.status, b"over plain HTTP" in told.body) == (403, True)
    assert (await client.get(path, Host="ci.example", **OVER_TLS)).status == 303


async def test_a_link_signs_in_once_within_ten_minutes_and_no_log_shows_it(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogLevel.DEBUG, LogFormat.JSON)
    link = await make_link_of(client.door)
    # A HEAD request does not use the link up.
    assert (await client.door.ask(f"/ui/sign-in?link={link}", {}, "HEAD")).status == 200
    opened = await client.get(f"/ui/sign-in?link={link}")
    assert (opened.status, opened.headers["Location"]) == (303, "/ui/")
    assert (await client.get("/ui/")).status == 200
    late = await make_link_of(client.door)
    again = Client(client.door)
    assert (await again.get(f"/ui/sign-in?link={link}")).status == 403
    client.door.clock.now = NOON + timedelta(minutes=11)
    for wrong in (late, late[:-3], late[3:], "", "ä", "A" * 9_000):
        assert (await again.get(f"/ui/sign-in?link={wrong}")).status in (403, 414)
    assert (await again.get("/ui/")).status == 303
    logged = capsys.readouterr().err
    assert "/ui/sign-in" in logged
    assert link not in logged
    assert client.door.key not in logged


async def test_processes_that_share_a_redis_accept_a_link_once(
    stack: Settings, redis_url: str
) -> None:
    shared = replace(stack, redis_url=redis_url)
    async for one in open_door(shared):
        async for other in open_door(shared):
            path = f"/ui/sign-in?link={await make_link_of(one)}"
            assert (await Client(one).get(path)).status == 303
            assert (await Client(other).get(path)).status == 403


@pytest.mark.parametrize(
    ("asked", "led_to"),
    [
        ("acme/widgets/tests?sort=test_name", "/ui/acme/widgets/tests?sort=test_name"),
        ("?sort=name", "/ui/?sort=name"),
        ("//evil.example", "/ui/"),
        ("https://evil.example", "/ui/https://evil.example"),
        ("\\evil.example", "/ui/"),
        ("a\r\nX-Injected: 1", "/ui/"),
        ("a/../../admin", "/ui/"),
        ("a/%2E./x", "/ui/"),
        ("a\\..", "/ui/"),
        ("acme/widgets/..?page=2", "/ui/"),
        ("acme/widgets/tests?name=a/../b", "/ui/acme/widgets/tests?name=a/../b"),
        ("acme/widgets/v1..2", "/ui/acme/widgets/v1..2"),
    ],
)
async def test_after_signing_in_one_stays_here(client: Client, asked: str, led_to: str) -> None:
    form = {"csrf": await client.proof(), "key": client.door.key}
    answer = await client.post(f"/ui/sign-in?{urlencode({'next': asked})}", form)
    assert answer.headers["Location"] == led_to


async def test_a_form_to_sign_in_from_yesterday_leads_to_a_new_one(client: Client) -> None:
    place = "/ui/sign-in?next=acme%2Fwidgets%3Fdays%3D90"
    form = {"csrf": await client.proof(place), "key": client.door.key}
    client.door.clock.now = NOON + timedelta(hours=9)
    client.cookies.clear()
    led_to = (await client.post(place, form)).headers["Location"]
    assert led_to == f"{place}&old=1"
    assert b"The form was too old" in (await client.get(led_to)).body
    again = await client.post(led_to, {**form, "csrf": await client.proof(led_to)})
    assert again.headers["Location"] == "/ui/acme/widgets?days=90"


@pytest.mark.parametrize(("asked", "wanted"), [("", ""), ("?next=acme%2Fwidgets", "acme/widgets")])
async def test_a_tab_that_waits_for_a_sign_in_goes_on_after_that_of_another(
    client: Client, asked: str, wanted: str
) -> None:
    place = f"/ui/sign-in{asked}"
    form = {"csrf": await client.proof(place), "key": client.door.key}
    await client.sign_in()
    sent = await client.post(place, form)
    again = await client.get(sent.headers["Location"])
    assert again.headers["Location"] == f"/ui/{wanted}"
    if wanted:
        reloaded = await client.get(place)
        assert reloaded.headers["Location"] == f"/ui/{wanted}"
    client.door.clock.now = NOON + timedelta(hours=9)
    assert (await client.get("/ui/sign-in?next=acme")).status == 200
