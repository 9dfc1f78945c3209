"""Signing in and what a session is worth, by plain requests as an attacker would send them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from indexing.models.keys import Scope
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery
from service.auth.api_keys import digest_key
from service.config.settings import Settings
from service.schemas.responses import TestMetricsAnswer
from tests.builders import NOON, WIDGETS
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, QUARANTINES, FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.shown import FLAKY, load_shown, page_of


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    door.key = await door.add_key(name="on call", scope=Scope.QUARANTINE)
    # Cookies are kept by the tests themselves.
    door.client.cookie_jar.clear()
    return Client(door)


async def is_quarantined(door: FrontDoor) -> bool:
    query = QuarantineQuery(WIDGETS, door.clock.now)
    return bool((await door.reader.list_quarantines(query, Anchor(), None)).rows)


async def test_a_page_counts_as_one_request_of_the_key(stack: Settings) -> None:
    async for door in open_door(replace(stack, rate_limit="100/day")):
        door.client.cookie_jar.clear()
        client = Client(door)
        await client.sign_in()
        answers = [await client.get("/ui/"), await client.get("/ui/"), await door.get(LOGS)]
        assert [answer.status for answer in answers] == [200, 200, 200]
        left = [int(answer.headers["RateLimit"].split(";")[1][2:]) for answer in answers]
        assert left == [left[0], left[0] - 1, left[0] - 2]


async def test_a_session_begins_with_a_valid_key_alone_and_does_not_hold_it(
    client: Client,
) -> None:
    assert (await client.get("/ui/")).headers["Location"] == "/ui/sign-in"
    for wrong in (
        "",
        "mw_",
        client.door.key.swapcase(),
        await client.door.add_key(expires_at=NOON),
    ):
        assert (await client.sign_in(wrong)).status == 403
        assert (await client.get("/ui/")).status == 303
    signed = await client.sign_in()
    assert (signed.status, signed.headers["Location"]) == (303, "/ui/")
    cookie = signed.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Max-Age=28800" in cookie
    assert client.door.key not in cookie
    home = await client.get("/ui/")
    assert home.status == 200
    assert client.door.key.encode() not in home.body


async def test_a_key_that_cannot_read_begins_no_session(client: Client) -> None:
    refused = await client.sign_in(await client.door.add_key(scope=Scope.INGEST))
    assert refused.status == 403
    assert b"scope may not read" in refused.body
    assert (await client.get("/ui/")).status == 303


async def test_away_from_loopback_the_cookie_is_for_https_alone(client: Client) -> None:
    away = await client.get("/ui/sign-in", Host="ci.example")
    assert away.headers["Set-Cookie"].startswith("__Host-mergewatch=")
    assert "Secure" in away.headers["Set-Cookie"]
    assert "Path=/" in away.headers["Set-Cookie"]


async def test_a_session_is_worth_nothing_once_its_key_is_revoked_or_eight_hours_have_passed(
    client: Client,
) -> None:
    await client.sign_in()
    stolen = dict(client.cookies)
    client.door.clock.now = NOON + timedelta(hours=7, minutes=59)
    assert (await client.get("/ui/")).status == 200
    client.door.clock.now = NOON + timedelta(hours=8, minutes=1)
    assert (await client.get("/ui/")).status == 303
    client.door.clock.now = NOON
    client.cookies = dict(stolen)
    assert (await client.get("/ui/")).status == 200
    key = await client.door.reader.find_key(digest_key(client.door.key))
    assert key is not None
    await client.door.store.revoke_key(key.id, NOON)
    assert (await client.get("/ui/")).status == 303
    # The response deletes the cookie.
    assert client.cookies == {}


async def test_a_forged_session_is_not_accepted(client: Client) -> None:
    await client.sign_in()
    [(name, value)] = client.cookies.items()
    for made_up in (value[:-4] + "AAAA", value[:40], "x" * 5_000, "", "gAAAAA=="):
        client.cookies = {name: made_up}
        assert (await client.get("/ui/")).status == 303


async def test_a_session_has_no_second_spelling(client: Client) -> None:
    await client.sign_in()
    ((name, value),) = client.cookies.items()
    # A decoder of base64 skips what is not of its alphabet.
    for spelling in (f"{value[:9]}!{value[9:]}", f"{value}=", f"{value}==AA"):
        client.cookies[name] = spelling
        assert (await client.get("/ui/")).status == 303
    client.cookies[name] = value
    assert (await client.get("/ui/")).status == 200


async def test_the_api_takes_no_session_and_the_dashboard_no_header(client: Client) -> None:
    await client.sign_in()
    assert (await client.get(QUARANTINES)).status == 403
    bearer = {"Authorization": f"Bearer {client.door.key}"}
    assert (await Client(client.door).get("/ui/", **bearer)).status == 303


async def test_a_session_sees_what_its_key_sees(client: Client) -> None:
    await load_shown(client.door.store)
    other = await client.door.new_key(owner="umbrella")
    await client.sign_in(other)
    assert b"widgets" not in (await client.get("/ui/")).body
    hidden = await client.get(page_of(FLAKY))
    absent = await client.get(page_of(FLAKY).replace("widgets", "absent"))
    assert hidden.status == absent.status == 404


async def test_a_forged_form_changes_nothing(client: Client) -> None:
    await load_shown(client.door.store)
    await client.sign_in()
    target, fields = page_of(FLAKY) + "/quarantine", {"reason": "forged"}
    proof = await client.proof(page_of(FLAKY))
    other = Client(client.door)
    await other.sign_in()
    for wrong, headers in (
        ({}, {}),
        ({"csrf": ""}, {}),
        ({"csrf": "."}, {}),
        ({"csrf": proof[:-1] + "?"}, {}),
        # Of the page to sign in, before this session began, and of another session.
        ({"csrf": await Client(client.door).proof()}, {}),
        ({"csrf": await other.proof("/ui/")}, {}),
        ({"csrf": proof}, {"Origin": "https://evil.example"}),
        ({"csrf": proof}, {"Origin": "null"}),
        ({"csrf": proof}, {"Origin": ""}),
        ({"csrf": proof}, {"Origin": client.door.base + ".evil.example"}),
    ):
        refused = await client.post(target, {**fields, **wrong}, **headers)
        assert refused.status == 403, (wrong, headers)
    as_text = await client.post(target, {**fields, "csrf": proof}, **{"Content-Type": "text/plain"})
    assert as_text.status == 415
    assert not await is_quarantined(client.door)
    assert (await client.post(target, {**fields, "csrf": proof})).status == 303
    assert await is_quarantined(client.door)


async def test_no_part_of_a_csrf_token_comes_twice(client: Client) -> None:
    await client.sign_in()
    first, second = [{*(await client.proof("/ui/")).split(".")} for _ in range(2)]
    # What stays the same in a compressed page could be guessed from its size.
    assert not first & second


async def test_what_a_key_may_not_do_no_form_does_either(client: Client) -> None:
    await load_shown(client.door.store)
    await client.sign_in(await client.door.new_key(Scope.READ))
    proof = await client.proof(page_of(FLAKY))
    refused = await client.post(page_of(FLAKY) + "/quarantine", {"csrf": proof, "reason": "x"})
    assert refused.status == 403
    assert not await is_quarantined(client.door)


async def test_a_wrong_form_comes_back_with_what_is_wrong(client: Client) -> None:
    await load_shown(client.door.store)
    await client.sign_in()
    proof = await client.proof(page_of(FLAKY))
    wrong = {"csrf": proof, "reason": "x" * 1_001, "days": "soon", "owner": "@me"}
    answer = await client.post(page_of(FLAKY) + "/quarantine", wrong)
    assert answer.status == 422
    assert b"<b>reason</b>" in answer.body
    assert b"<b>expires_at</b>" in answer.body
    assert b'value="@me"' in answer.body


async def test_a_reason_has_as_many_characters_and_lines_as_in_the_browser(client: Client) -> None:
    await load_shown(client.door.store)
    await client.sign_in()
    sent = {"csrf": await client.proof(page_of(FLAKY)), "reason": "first\r\n" + "x" * 994}
    assert (await client.post(page_of(FLAKY) + "/quarantine", sent)).status == 303
    for path in (page_of(FLAKY), "/ui/acme/widgets/quarantines"):
        shown = (await client.get(path)).body.decode()
        assert "first\nxxx" in shown
        assert r"first\r" not in shown


async def test_signing_out_ends_the_session_in_the_browser(client: Client) -> None:
    await client.sign_in()
    await client.post("/ui/sign-out", {"csrf": await client.proof("/ui/")})
    assert client.cookies == {}
    assert (await client.get("/ui/")).status == 303


@pytest.mark.parametrize("hours", [0, 9], ids=["signed out elsewhere", "ended"])
async def test_signing_out_of_a_session_that_is_over_leads_to_the_form(
    client: Client, hours: int
) -> None:
    await client.sign_in()
    page = {"csrf": await client.proof("/ui/")}
    if hours == 0:
        await client.post("/ui/sign-out", page)
        # Another window of the browser shows the form, which begins a session without a key.
        await client.get("/ui/sign-in")
    client.door.clock.now = NOON + timedelta(hours=hours)
    cookies = dict(client.cookies)
    answer = await client.post("/ui/sign-out", page)
    assert (answer.status, answer.headers["Location"]) == (303, "/ui/sign-in")
    # That of another window can still be sent.
    assert client.cookies == cookies
    # A form of another site comes without the cookie, and ends no session.
    client.door.clock.now = NOON
    await client.sign_in()
    cookies, client.cookies = client.cookies, {}
    await client.post("/ui/sign-out", {}, Origin="https://evil.example")
    client.cookies = {**cookies, **client.cookies}
    assert (await client.get("/ui/")).status == 200


async def test_no_response_may_be_cached_or_embedded_elsewhere(client: Client) -> None:
    await load_shown(client.door.store)
    await client.sign_in()
    for path in ("/ui/", "/ui/sign-in", page_of(FLAKY), "/ui/nothing/here/at/all"):
        headers = (await client.get(path)).headers
        policy = headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"


async def test_two_processes_over_one_store_share_sessions(stack: Settings) -> None:
    async for one in open_door(stack):
        client = Client(one)
        await client.sign_in()
        async for other in open_door(stack):
            port, other_port = (each.base.rpartition(":")[2] for each in (one, other))
            elsewhere = Client(other)
            elsewhere.cookies = {
                name.replace(port, other_port): value for name, value in client.cookies.items()
            }
            assert (await elsewhere.get("/ui/")).status == 200


async def test_the_dashboard_can_be_left_out(stack: Settings) -> None:
    async for door in open_door(replace(stack, ui=False)):
        for path in ("/", "/ui/", "/ui/sign-in"):
            assert (await door.ask(path, {})).status == 404


async def test_behind_a_prefix_every_link_has_it(stack: Settings) -> None:
    public = replace(stack, public_url="https://ci.example/mergewatch")
    async for door in open_door(public):
        client = Client(door)
        page = await client.get("/ui/sign-in")
        found = re.findall(rb'(?:href|src|action)="(/[^"]*)"', page.body)
        assert found
        assert all(each.startswith(b"/mergewatch/ui/") for each in found)
        assert (await client.get("/ui/")).headers["Location"] == "/mergewatch/ui/sign-in"


async def test_a_view_is_exported_whole(client: Client) -> None:
    await load_shown(client.door.store)
    await client.sign_in()
    exported = await client.get("/ui/acme/widgets/tests.csv?test_name=hinge&cursor=&sort=job_name")
    assert exported.headers["Content-Type"].startswith("text/csv")
    assert exported.headers["Content-Disposition"] == 'attachment; filename="tests.csv"'
    rows = list(csv.DictReader(io.StringIO(exported.body.decode())))
    assert [(row["test_name"], row["job_name"]) for row in rows] == [
        (FLAKY, "linux"),
        (FLAKY, "windows"),
    ]
    # The figures that the page shows, under the names of the API.
    windows = rows[1]
    assert windows["health_status"] == "flaky"
    assert (windows["executions_count"], windows["failed_executions_count"]) == ("14", "2")
    assert windows["mean_duration"] == "0.25"
    assert windows["is_quarantined"] == "false"
    assert set(TestMetricsAnswer().fields) <= set(windows)
    assert (await client.get("/ui/acme/absent/tests.csv")).status == 404
