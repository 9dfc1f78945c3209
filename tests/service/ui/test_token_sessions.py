"""Sessions of tokens of the code host, by plain requests as an attacker would send them."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from service.config.settings import LogFormat, LogLevel, Settings
from service.logs import configure_logging
from service.ui.session import LIFETIME
from tests.builders import FOREIGN, GADGETS, NOON, WIDGETS, after, load_names
from tests.service.conftest import open_door
from tests.service.front_door import Answer, FrontDoor
from tests.service.tracing.conftest import Spans, open_tracing
from tests.service.ui.logged import LOG
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.test_event_tail import tail
from tests.service.ui.test_sessions import Client
from tests.source_host import Saying, SourceHost, open_host

TOKEN = "ghs_a.token-of/a+host~1="
OTHER = "ghp_of_another_person"
HOME = "acme/widgets"
NO_REDIS = "redis://127.0.0.1:1/0"


@pytest.fixture
async def host() -> AsyncIterator[SourceHost]:
    async with open_host() as opened:
        opened.add("Acme/Widgets", TOKEN)
        opened.add("umbrella/widgets", OTHER)
        yield opened


@pytest.fixture(params=["folder", "redis"])
def stack(request: pytest.FixtureRequest, tmp_path: Path, host: SourceHost) -> Settings:
    """The settings of a service that keeps sessions in that place."""
    chosen = Settings(data_dir=tmp_path, host_api_url=host.base)
    if request.param == "redis":
        chosen = replace(chosen, redis_url=request.getfixturevalue("redis_url"))
    return chosen


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    # Cookies are kept by the tests themselves.
    door.client.cookie_jar.clear()
    return Client(door)


async def sign_in(client: Client, token: str = TOKEN, repository: str = HOME) -> Answer:
    return await client.sign_in(token, repository=repository)


async def signed_in(door: FrontDoor, token: str = TOKEN, repository: str = HOME) -> Client:
    client = Client(door)
    assert (await sign_in(client, token, repository)).status == 303
    return client


async def is_open(client: Client, path: str = "/ui/") -> bool:
    return (await client.get(path)).status == 200


def move(client: Client, door: FrontDoor) -> Client:
    """The same browser at another process, which listens on another port."""
    moved = Client(door)
    old, new = (each.base.rpartition(":")[2] for each in (client.door, door))
    moved.cookies = {name.replace(old, new): value for name, value in client.cookies.items()}
    return moved


def kept_in(settings: Settings) -> bytes:
    """Return all that is stored: every file of the service, or every value of Redis."""
    found = [path.read_bytes() for path in settings.data_dir.rglob("*") if path.is_file()]
    if settings.redis_url is not None:
        with redis.Redis.from_url(settings.redis_url) as server:
            for key in server.keys("mergewatch:*"):
                found += [key, server.get(key) or b""]
    return b"\n".join(found)


async def drop_sessions(door: FrontDoor) -> int:
    """Lose all sessions of tokens; return how many there were."""
    settings = door.settings
    if settings.redis_url is None:
        paths = list((settings.data_dir / "sessions").iterdir())
        for path in paths:
            path.unlink()
        return len(paths)
    with redis.Redis.from_url(settings.redis_url) as server:
        store_id = (await door.reader.get_identity()).store_id
        keys = server.keys(f"mergewatch:*{store_id}*:confirmed:*")
        return int(server.delete(*keys)) if keys else 0


def without_figures(answer: Answer) -> bytes:
    """Return the page without what differs each time: CSRF tokens, times and request ids."""
    text = re.sub(rb'value="[0-9a-f]+\.[0-9a-f]+"', b"", answer.body)
    return re.sub(rb"Answered in [^<]*|request <?[^<]*", b"", text)


def forms_of(secret: str) -> list[bytes]:
    """Return the encodings in which a secret may hide."""
    raw = secret.encode()
    # Base64 of the same bytes depends on the position, modulo three.
    shifted = [base64.b64encode(b"\0" * at + raw)[4 * bool(at) : -4] for at in range(3)]
    return [raw, raw.hex().encode(), *shifted, *(each.translate(URL_SAFE) for each in shifted)]


URL_SAFE = bytes.maketrans(b"+/", b"-_")


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
    assert len(base64.urlsafe_b64decode(ticket)) == 32
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
    assert (await attacker.post("/ui/sign-in", fields)).status == 403
    stolen = {"csrf": await client.proof("/ui/"), **fields}
    assert (await attacker.post("/ui/sign-in", stolen)).status == 403
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


async def test_sessions_survive_a_restart_and_are_known_to_all_processes(
    stack: Settings,
) -> None:
    async for one in open_door(stack):
        client = await signed_in(one)
        async for other in open_door(stack):
            assert await is_open(move(client, other))
    async for restarted in open_door(stack):
        moved = move(client, restarted)
        assert await is_open(moved)
        await moved.post("/ui/sign-out", {"csrf": await moved.proof("/ui/")})
    async for again in open_door(stack):
        assert not await is_open(move(client, again))


async def test_a_lost_session_leads_to_the_form_with_a_plain_message(
    client: Client, stack: Settings
) -> None:
    await sign_in(client)
    assert await drop_sessions(client.door) == 1
    lost = await client.get("/ui/acme/widgets/tests?health=flaky")
    assert lost.status == 303
    form = await client.get(lost.headers["Location"])
    assert b"or the service no longer knows the session. Sign in again." in form.body
    # The form knows the repository already.
    assert b'value="acme/widgets"' in form.body
    assert b'value="acme/widgets/tests?health=flaky"' in form.body


async def test_another_host_is_never_sent_the_token(stack: Settings, host: SourceHost) -> None:
    async for door in open_door(stack):
        client = await signed_in(door)
    async with open_host() as other:
        other.add("acme/widgets", TOKEN)
        async for door in open_door(replace(stack, host_api_url=other.base)):
            assert not await is_open(move(client, door))
        assert other.asked == []
    async for door in open_door(stack):
        assert await is_open(move(client, door))


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_without_its_redis_no_session_of_a_token_begins_but_that_of_a_key(
    stack: Settings,
) -> None:
    async for door in open_door(replace(stack, redis_url=NO_REDIS)):
        client = Client(door)
        refused = await sign_in(client)
        assert refused.status == 503
        assert b"The sessions of tokens are unavailable" in refused.body
        assert (await client.sign_in(door.key)).status == 303


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_a_redis_that_fails_signs_nobody_out(
    stack: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.cache.redis_connection import RedisConnection

    async def fail(*_: object) -> Any:
        return None

    async for door in open_door(replace(stack, redis_url=redis_url)):
        client = await signed_in(door)
        with monkeypatch.context() as broken:
            broken.setattr(RedisConnection, "get", fail)
            down = await client.get("/ui/")
            assert (down.status, b"The sessions of tokens" in down.body) == (503, True)
        assert await is_open(client)


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_requests_of_a_session_count_as_those_of_its_token(
    stack: Settings, host: SourceHost
) -> None:
    async for door in open_door(replace(stack, rate_limit="4/hour")):
        client = await signed_in(door)
        assert await is_open(client)
        assert (await door.get("/v1/repos/acme/widgets/logs", key=TOKEN)).status == 200
        assert await is_open(client)
        asked = len(host.asked)
        door.clock.now = after(minutes=2)
        spent = await client.get("/ui/")
        assert (spent.status, len(host.asked)) == (429, asked)
        assert (await client.sign_in(TOKEN, repository=HOME)).status == 429


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_the_first_page_opens_a_repository_by_name(client: Client) -> None:
    await sign_in(client)
    opened = await client.get("/ui/?repository=acme%2Fgadgets")
    assert (opened.status, opened.headers["Location"]) == (303, "/ui/acme/gadgets")
    for wrong in ("acme", "a/b/c", "//evil.example", "acme/..", '"><img src=x>', "x" * 1_000):
        refused = await client.get(f"/ui/?repository={wrong}")
        assert (refused.status, b"<img" in refused.body) == (422, False)
    by_key = Client(client.door)
    await by_key.sign_in()
    assert b"Open a repository" not in (await by_key.get("/ui/")).body


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_a_call_from_the_reference_is_checked_for_the_repository_that_it_names(
    client: Client, host: SourceHost
) -> None:
    await load_names(client.door.store, ["test_of_gadgets"], repository=GADGETS)
    host.add("acme/gadgets", TOKEN)
    await client.door.store.ensure_repository(FOREIGN)
    await sign_in(client)

    async def try_search(repository: str) -> bytes:
        owner, _, name = repository.partition("/")
        document = (await client.door.ask("/openapi.json", {})).json
        operation = next(
            found["get"]["operationId"]
            for path, found in document["paths"].items()
            if path.endswith("/search/tests")
        )
        query = f"operation={operation}&try=1&owner={owner}&test_name=*&repository={name}"
        return (await client.get(f"/ui/docs?{query}&repository_name={name}")).body

    assert b"test_of_gadgets" in await try_search("acme/gadgets")
    for hidden in ("umbrella/widgets", "umbrella/absent"):
        assert b"there is no such repository" in await try_search(hidden)


@pytest.mark.parametrize("stack", ["folder"], indirect=True)
async def test_a_live_tail_ends_once_the_token_is_revoked(
    client: Client, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.handlers.event_stream.CHECK_SECONDS", 0.02)
    await client.door.store.ensure_repository(WIDGETS)
    await sign_in(client)
    async with tail(client) as answer:
        assert answer.status == 200
        host.readable.pop(TOKEN)
        client.door.clock.now = after(seconds=60)
        await answer.read()
    async with tail(client) as answer:
        assert answer.status == 303
