"""Sessions of tokens of the code host, by plain requests as an attacker would send them."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import timedelta

import pytest

from service.config.settings import LogFormat, LogLevel, Settings
from service.logs import configure_logging
from service.ui.session import LIFETIME
from tests.builders import FOREIGN, GADGETS, NOON, after, load_names
from tests.service.conftest import open_door
from tests.service.tracing.conftest import Spans, open_tracing
from tests.service.ui.client import Client
from tests.service.ui.logged import LOG
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.token_sessions.conftest import (
    HOME,
    OTHER,
    TOKEN,
    drop_sessions,
    forms_of,
    is_open,
    kept_in,
    sign_in,
    signed_in,
    without_figures,
)
from tests.source_host import Saying, SourceHost


async def test_a_token_signs_in_and_sees_what_the_api_shows_it(client: Client) -> None:
    door = client.door
    await load_shown(door.store)
    await load_names(door.store, ["hidden"], repository=GADGETS)
    signed = await sign_in(client)
    assert (signed.status, signed.headers["Location"]) == (303, "/ui/")
    home = await client.get("/ui/")
    assert (home.status, b"acme/widgets" in home.body) == (200, True)
    assert b"gadgets" not in home.body
    assert b"what it can read on the code host" in home.body
    for path in ("/ui/acme/widgets", page_of(FLAKY), LOG, "/ui/acme/widgets/quarantines"):
        assert await is_open(client, path), path
    proof = await client.proof("/ui/")
    change = await client.post(page_of(FLAKY) + "/quarantine", {"csrf": proof, "reason": "x"})
    assert change.status == 403


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
@pytest.mark.parametrize(
    ("token", "repository", "asked", "said"),
    [
        ("ghp_unknown", HOME, 1, b"no token that the code host accepts"),
        (TOKEN, "umbrella/widgets", 1, b"shows this token no repository"),
        (TOKEN, "acme/absent", 1, b"shows this token no repository"),
        (TOKEN, "acme/..", 0, b"shows this token no repository"),
        (TOKEN, "", 0, b"name a repository"),
        (TOKEN, "acme", 0, b"name a repository"),
        (TOKEN, "acme/widgets/x", 0, b"name a repository"),
        (TOKEN, "acme/" + '"><script>' * 2_000, 0, b"name a repository"),
        ("", HOME, 0, b"no token that the code host accepts"),
        ("x" * 10_000, HOME, 0, b"no token that the code host accepts"),
        ("a\r\nX-Injected: 1", HOME, 0, b"no token that the code host accepts"),
        ("a\0b", HOME, 0, b"no token that the code host accepts"),
        ("a\x1b[2Jb", HOME, 0, b"no token that the code host accepts"),
        ("gh_\u202e\U0001f600", HOME, 0, b"no token that the code host accepts"),
        # What is almost a key, and may be one of another service.
        ("mw_almost", HOME, 0, b"This key is not valid"),
    ],
)
async def test_what_is_no_valid_token_begins_no_session(
    client: Client, host: SourceHost, token: str, repository: str, asked: int, said: bytes
) -> None:
    refused = await sign_in(client, token, repository)
    assert (refused.status, len(host.asked)) == (403, asked)
    assert said in refused.body
    assert b"<script>" not in refused.body
    assert not token or token.encode() not in refused.body
    assert (await client.get("/ui/")).status == 303


async def test_a_key_signs_in_beside_tokens(client: Client, host: SourceHost) -> None:
    assert (await client.sign_in(client.door.key, repository="")).status == 303
    assert await is_open(client)
    assert host.asked == []


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_without_a_code_host_the_form_takes_keys_alone(stack: Settings) -> None:
    async for door in open_door(replace(stack, host_api_url=None)):
        client = Client(door)
        page = await client.get("/ui/sign-in")
        assert b"token" not in page.body.replace(b"csrf", b"")
        refused = await sign_in(client)
        assert (refused.status, b"This key is not valid" in refused.body) == (403, True)
        assert not (stack.data_dir / "sessions").exists()


async def test_the_token_is_in_no_cookie_page_log_url_metric_trace_file_or_cached_value(
    stack: Settings, host: SourceHost, capfd: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogLevel.DEBUG, LogFormat.JSON)
    spans = Spans()
    settings = replace(stack, metrics=True)
    seen: list[bytes] = []
    async for door in open_door(settings, open_tracing(spans)):
        await load_shown(door.store)
        client = Client(door)
        answers = [await client.get("/ui/sign-in"), await sign_in(client)]
        [cookie] = client.cookies.values()
        paths = ("/ui/", "/ui/acme/widgets", "/ui/umbrella/x", "/ui/docs", LOG)
        answers += [await client.get(path) for path in paths]
        host.saying = Saying(500)
        door.clock.now += timedelta(hours=1)
        answers.append(await client.get("/ui/"))
        host.saying = None
        answers += [await client.get("/ui/"), await door.ask("/metrics", {})]
        assert [answer.status for answer in answers][-3:] == [503, 200, 200]
        seen.append(kept_in(settings))
        assert (
            b"sessions" in b"".join(str(path).encode() for path in settings.data_dir.iterdir())
            or b":confirmed:" in seen[0]
        )
        answers.append(await client.post("/ui/sign-out", {"csrf": await client.proof("/ui/")}))
        seen += [cookie.encode(), base64.urlsafe_b64decode(cookie)]
        seen += [answer.body + str(answer.headers).encode() for answer in answers]
    seen.append("".join(span.to_json() for span in spans.take()).encode())
    logged = capfd.readouterr()
    assert "/ui/sign-in" in logged.err
    seen.append((logged.err + logged.out).encode())
    for text in seen:
        for form in forms_of(TOKEN):
            assert form not in text, (form, text[:200])


async def test_neither_the_cookie_nor_what_is_stored_reveals_the_token(
    client: Client, stack: Settings
) -> None:
    """With the secret of the service too: the cookie decrypts to a ticket, values to nothing."""
    from service.ui.dashboard import DASHBOARD

    await sign_in(client)
    [cookie] = client.cookies.values()
    sessions = client.door.app[DASHBOARD].sessions
    content = sessions._fernet.decrypt(cookie)
    assert all(form not in content for form in forms_of(TOKEN))
    ticket = content.rsplit(b'"', 2)[1]
    assert len(base64.urlsafe_b64decode(ticket)) == 48
    assert ticket not in kept_in(stack)


async def test_a_session_ends_within_60_seconds_of_the_revocation_of_its_token(
    client: Client, host: SourceHost, stack: Settings
) -> None:
    await load_shown(client.door.store)
    await sign_in(client)
    copied = dict(client.cookies)
    host.readable.pop(TOKEN)
    client.door.clock.now = after(seconds=60)
    for path in ("/ui/acme/widgets", "/ui/", page_of(FLAKY), "/ui/docs", LOG):
        client.cookies = dict(copied)
        ended = await client.get(path)
        assert (ended.status, "ended=1" in ended.headers["Location"]) == (303, True)
        # The response deletes the cookie.
        assert client.cookies == {}
    told = await client.get(ended.headers["Location"])
    assert b"Your session has ended" in told.body
    # The service has forgotten the token: it comes back to life for nobody.
    assert await drop_sessions(client.door) == 0
    host.add("Acme/Widgets", TOKEN)
    client.door.clock.now = after(minutes=5)
    client.cookies = dict(copied)
    assert not await is_open(client)


async def test_a_session_ends_after_eight_hours(client: Client) -> None:
    await sign_in(client)
    client.door.clock.now = NOON + LIFETIME - timedelta(minutes=1)
    assert await is_open(client)
    client.door.clock.now = NOON + LIFETIME + timedelta(minutes=1)
    assert not await is_open(client)


async def test_what_the_host_hides_is_like_what_is_missing(
    client: Client, host: SourceHost
) -> None:
    await client.door.store.ensure_repository(FOREIGN)
    host.add("acme/nothing", TOKEN)
    await sign_in(client)
    pages = []
    for owner, name in (("umbrella", "widgets"), ("umbrella", "absent"), ("acme", "nothing")):
        answer = await client.get(f"/ui/{owner}/{name}")
        assert (answer.status, b"There is no such repository" in answer.body) == (404, True)
        pages.append(
            without_figures(answer).replace(owner.encode(), b"").replace(name.encode(), b"")
        )
    assert len(set(pages)) == 1
    # A repository that becomes hidden ends no session.
    host.readable[TOKEN].remove(host.repositories["Acme/Widgets"])
    client.door.clock.now = after(minutes=2)
    assert (await client.get("/ui/acme/widgets")).status == 404
    home = await client.get("/ui/")
    assert (home.status, b"no longer shows this token" in home.body) == (200, True)


async def test_while_the_host_is_down_a_page_says_so_and_the_session_goes_on(
    client: Client, host: SourceHost
) -> None:
    await sign_in(client)
    host.saying = Saying(500)
    # As in the API, access that was granted lasts through a short outage.
    client.door.clock.now = after(minutes=9)
    assert await is_open(client)
    client.door.clock.now = after(minutes=11)
    for path in ("/ui/", "/ui/acme/widgets"):
        down = await client.get(path)
        assert (down.status, b"The code host is unavailable" in down.body) == (503, True)
        assert int(down.headers["Retry-After"]) > 0
    new = await sign_in(Client(client.door))
    assert (new.status, b"The code host is unavailable" in new.body) == (503, True)
    host.saying = None
    assert await is_open(client)


async def test_signing_out_ends_the_session_for_copies_of_its_cookie_too(
    client: Client, host: SourceHost, stack: Settings
) -> None:
    await sign_in(client)
    copied = dict(client.cookies)
    forged = await client.post("/ui/sign-out", {"csrf": "x.y"})
    assert (forged.status, await is_open(client)) == (403, True)
    out = await client.post("/ui/sign-out", {"csrf": await client.proof("/ui/")})
    assert (out.status, client.cookies) == (303, {})
    client.cookies = copied
    assert not await is_open(client)
    assert await drop_sessions(client.door) == 0
    assert host.readable[TOKEN]


async def test_signing_in_again_ends_the_session_before(client: Client, stack: Settings) -> None:
    await sign_in(client)
    copied = dict(client.cookies)
    await sign_in(client)
    assert await is_open(client)
    client.cookies = copied
    assert not await is_open(client)
    assert await drop_sessions(client.door) == 1


async def test_a_session_that_somebody_prepared_is_not_the_one_that_begins(
    client: Client,
) -> None:
    proof = await client.proof()
    prepared = dict(client.cookies)
    signed = await client.post("/ui/sign-in", {"csrf": proof, "key": TOKEN, "repository": HOME})
    assert signed.status == 303
    assert client.cookies != prepared
    attacker = Client(client.door)
    attacker.cookies = prepared
    assert not await is_open(attacker)
    assert (await client.post("/ui/sign-out", {"csrf": proof})).status == 403
    # Nor does a form of another site, or of another session, sign anybody in.
    fields = {"key": TOKEN, "repository": HOME}
    for forged in ({}, {"csrf": await client.proof("/ui/")}):
        answer = await attacker.post("/ui/sign-in", {**forged, **fields})
        assert answer.headers["Location"] == "/ui/sign-in?old=1"
        assert attacker.cookies == prepared
    own = {"csrf": proof, **fields}
    away = await attacker.post("/ui/sign-in", own, Origin="https://evil.example")
    assert away.status == 403


async def test_each_cookie_opens_its_own_session(client: Client) -> None:
    await client.door.store.ensure_repository(FOREIGN)
    await sign_in(client)
    other = await signed_in(client.door, OTHER, "umbrella/widgets")
    assert b"umbrella" in (await other.get("/ui/")).body
    assert (await other.get("/ui/acme/widgets")).status == 404
    assert (await client.get("/ui/umbrella/widgets")).status == 404
    [(name, mine)], [theirs] = client.cookies.items(), other.cookies.values()
    for mixed in (mine[:60] + theirs[60:], theirs[:-20] + mine[-20:], mine[:-1]):
        client.cookies = {name: mixed}
        assert not await is_open(client)
    client.cookies = {name: theirs}
    assert b"umbrella" in (await client.get("/ui/")).body
