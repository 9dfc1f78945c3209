"""When a session cookie is set, and where people without a session are led."""

from __future__ import annotations

import base64
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from service.config.settings import Settings
from tests.builders import NOON, after
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.signed_in import sign_in

EVIL = "https://evil.example"
OPEN_FORMS = ("/ui/sign-in", "/ui/sign-out")


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    return await sign_in(door)


@pytest.mark.parametrize("path", [*OPEN_FORMS, "/ui/acme/widgets/quarantines/end", "/ui/absent"])
@pytest.mark.parametrize("origin", [EVIL, EVIL.replace("https", "http"), "null", ""])
async def test_a_form_of_another_site_leaves_the_session_alone(
    client: Client, path: str, origin: str
) -> None:
    kept = dict(client.cookies)
    # Browsers send no Lax cookie with the form of another site, but accept a new one.
    client.cookies.clear()
    for host in ({}, {"Host": "ci.example", "X-Forwarded-Proto": "https"}):
        refused = await client.post(path, {"csrf": "x", "key": "y"}, Origin=origin, **host)
        assert refused.status in (303, 403, 405)
        assert "Set-Cookie" not in refused.headers
    client.cookies = kept
    assert (await client.get("/ui/")).status == 200


async def test_a_session_begins_with_the_form_to_sign_in_alone(client: Client) -> None:
    client.cookies.clear()
    for path in ("/ui/", "/ui/nothing/here/at/all", f"/ui/sign-in?next={'x' * 8_000}"):
        assert "Set-Cookie" not in (await client.get(path)).headers
    assert "Set-Cookie" in (await client.get("/ui/sign-in")).headers
    assert "Set-Cookie" not in (await client.get("/ui/sign-in")).headers


@pytest.mark.parametrize(
    ("view", "leads_back"), [("a" * 3_900, True), ("%22" * 1_200, True), ("%22" * 1_500, False)]
)
async def test_a_long_view_leads_to_a_form_that_can_be_opened(
    client: Client, view: str, leads_back: bool
) -> None:
    client.cookies.clear()
    target = f"acme/widgets/tests?test_name={view}"
    led = (await client.get(f"/ui/{target}")).headers["Location"]
    assert (await client.get(led)).status == 200
    assert len(led) < 7_600
    assert parse_qs(urlsplit(led).query) == ({"next": [target]} if leads_back else {})


async def test_a_proxy_that_changes_the_host_does_not_make_the_cookie_one_of_plain_http(
    stack: Settings,
) -> None:
    # The tests send their requests to 127.0.0.1, as such a proxy does.
    public_url = "https://ci.example"
    async for door in open_door(replace(stack, public_url=public_url)):
        door.key = await door.add_key(key_id="proxied")
        client = Client(door)
        fields = {"csrf": await client.proof(), "key": door.key}
        signed = await client.post("/ui/sign-in", fields, Origin=public_url)
        assert signed.status == 303
        cookie = signed.headers["Set-Cookie"]
        assert cookie.startswith("__Host-mergewatch=")
        assert "Secure" in cookie
        # That of the form to sign in, which seemed to come over plain HTTP, is gone.
        assert {*client.cookies} == {"__Host-mergewatch"}
        kept = dict(client.cookies)
        assert (await client.get("/ui/")).status == 200
        fields = {"csrf": await client.proof("/ui/")}
        assert (await client.post("/ui/sign-out", fields, Origin=public_url)).status == 303
        assert (await client.get("/ui/")).status == 303
        client.cookies = kept
        assert (await client.get("/ui/")).status == 200
        await door.store.revoke_key("proxied", NOON)
        ended = await client.get("/ui/")
        assert (ended.status, "__Host-mergewatch" in client.cookies) == (303, False)


async def test_a_cookie_that_cannot_be_read_hides_no_other_one(stack: Settings) -> None:
    public_url = "https://ci.example"
    async for door in open_door(replace(stack, public_url=public_url)):
        door.key = await door.add_key(key_id="beside")
        client = Client(door)
        # Of another service, or from before the secret changed.
        client.cookies["__Host-mergewatch"] = base64.urlsafe_b64encode(bytes(96)).decode()
        fields = {"csrf": await client.proof(), "key": door.key}
        signed = await client.post("/ui/sign-in", fields, Origin=public_url)
        assert signed.status == 303
        assert (await client.get("/ui/")).status == 200


@pytest.mark.parametrize("view", ["", "?test_name=a.b&sort=test_name"])
@pytest.mark.parametrize("export", ["tests.csv", "events.csv", "events.ndjson"])
async def test_an_export_after_the_end_of_a_session_leads_to_its_page(
    client: Client, export: str, view: str
) -> None:
    client.cookies.clear()
    led = (await client.get(f"/ui/acme/wid.gets/{export}{view}")).headers["Location"]
    page = f"acme/wid.gets/{export.partition('.')[0]}{view}"
    assert parse_qs(urlsplit(led).query) == {"next": [page]}


@pytest.mark.parametrize(
    ("hours", "shown"), [(1, "until 13:00 UTC"), (9, "until 20:00 UTC"), (None, "until 20:00 UTC")]
)
async def test_a_page_says_when_the_session_ends_also_if_its_key_expires_before(
    client: Client, hours: int | None, shown: str
) -> None:
    expires_at = None if hours is None else after(hours=hours)
    client.cookies.clear()
    await client.sign_in(await client.door.add_key(expires_at=expires_at))
    assert f"Signed in {shown}" in (await client.get("/ui/")).body.decode()
