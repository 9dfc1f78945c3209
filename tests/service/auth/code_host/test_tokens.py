"""Tokens of the code host, over HTTP: the access that each response of the host grants."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest

from indexing import lru
from service.auth.code_host import access, client
from service.auth.code_host.access import (
    MAX_CONCURRENT_UNKNOWN,
    MAX_CONSECUTIVE_FAILURES,
    MAX_WAITING_UNKNOWN,
)
from service.auth.code_host.client import TOTAL_SECONDS
from service.auth.code_host.decisions import GRANT_LIFETIME
from service.config.settings import LogFormat, LogLevel, Settings
from service.context import CONTEXT
from service.logs import configure_logging
from tests.builders import FOREIGN, GADGETS, NOON, WIDGETS, after
from tests.service.auth.code_host.tokens import GOOD, TOKEN, status
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, TESTS, FrontDoor, operations
from tests.source_host import Saying, SourceHost
from tests.waiting import until

NAMES = tuple(operations())
REPOSITORIES = "/v1/ci/acme/repositories"


@pytest.mark.parametrize("operation", NAMES)
async def test_a_token_reads_what_it_reads_on_the_host(door: FrontDoor, operation: str) -> None:
    by_key = await door.get(operations()[operation])
    by_token = await door.get(operations()[operation], key=TOKEN)
    assert (by_token.status, by_token.body) == (by_key.status, by_key.body)
    assert by_token.status in {200, 404}


async def test_the_request_to_the_host_has_the_token_and_nothing_else(
    door: FrontDoor, host: SourceHost
) -> None:
    await door.get(f"{LOGS}?base_ref=main", key=TOKEN, Cookie="a=b")
    assert host.asked == [("/repos/acme/widgets", TOKEN)]


@pytest.mark.parametrize("operation", NAMES)
async def test_a_token_that_the_host_does_not_know_is_as_good_as_none(
    door: FrontDoor, operation: str
) -> None:
    unknown = await door.get(operations()[operation], key="ghp_unknown")
    none = await door.ask(operations()[operation], {})
    assert (unknown.status, unknown.body) == (403, none.body)


@pytest.mark.parametrize("operation", NAMES)
async def test_what_the_host_hides_is_like_what_is_absent(
    door: FrontDoor, host: SourceHost, operation: str
) -> None:
    await door.store.ensure_repository(FOREIGN)
    host.add("umbrella/widgets")
    host.add("acme/nothing", TOKEN)
    hidden = await door.get(operations("umbrella", "widgets")[operation], key=TOKEN)
    nowhere = await door.get(operations("nobody", "nothing")[operation], key=TOKEN)
    unknown_here = await door.get(operations("acme", "nothing")[operation], key=TOKEN)
    by_key = await door.get(operations("umbrella", "widgets")[operation])
    assert {hidden.status, nowhere.status, unknown_here.status} == {404}
    assert hidden.body == nowhere.body == unknown_here.body == by_key.body


async def test_a_token_lists_the_one_repository_that_it_names(
    door: FrontDoor, host: SourceHost
) -> None:
    await door.store.ensure_repository(GADGETS)
    await door.store.ensure_repository(WIDGETS)
    host.add("acme/gadgets")
    named = await door.get(f"{REPOSITORIES}?repository=widgets", key=TOKEN)
    assert [row["repository"] for row in named.json["repositories"]] == ["acme/widgets"]
    hidden = await door.get(f"{REPOSITORIES}?repository=gadgets", key=TOKEN)
    absent = await door.get(f"{REPOSITORIES}?repository=nothing", key=TOKEN)
    foreign = await door.get("/v1/ci/nobody/repositories?repository=x", key=TOKEN)
    assert (hidden.status, hidden.body) == (404, absent.body)
    assert foreign.body == absent.body
    unknown = await door.get(f"{REPOSITORIES}?repository=widgets", key="ghp_unknown")
    assert unknown.status == 403


@pytest.mark.parametrize(
    "query", ["", "?repository=", "?repository=a%2Fb", "?repository=a&repository=b"]
)
async def test_a_token_without_a_repository_parameter_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost, query: str
) -> None:
    answer = await door.get(REPOSITORIES + query, key=TOKEN)
    assert (answer.status, host.asked) == (403, [])
    assert "parameter repository" in answer.json["detail"]


async def test_a_token_may_not_write(tmp_path: Path, host: SourceHost) -> None:
    settings = Settings(data_dir=tmp_path, host_api_url=host.base, ingest=True)
    async for door in open_door(settings):
        sent = await door.post(LOGS, b"", "application/x-ndjson", key=TOKEN)
        assert sent.status == 403
        hidden = await door.post(
            "/v1/repos/umbrella/x/logs", b"", "application/x-ndjson", key=TOKEN
        )
        assert hidden.status == 404


async def test_tokens_are_refused_without_a_configured_host(tmp_path: Path) -> None:
    async for door in open_door(Settings(data_dir=tmp_path)):
        assert await status(door) == 403
        assert await status(door, target="/v1/repos/ac_me/widgets/logs") == 403


async def test_a_mistyped_application_key_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost
) -> None:
    for wrong in (door.key[:-1], door.key + "x", "mw_", "mw_secret"):
        assert await status(door, wrong) == 403
    assert host.asked == []


@pytest.mark.parametrize("token", ["a,b", "a;b", 'a"b', "=a", "a=b", "a" * 5_000])
async def test_a_token_of_unknown_form_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost, token: str
) -> None:
    assert await status(door, token) == 403
    assert await status(door, token, "/v1/repos/ac_me/widgets/logs") == 403
    assert host.asked == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/repos/ac_me/widgets/logs", 422),
        (f"/v1/repos/acme/{'a' * 300}/logs", 404),
        ("/v1/repos/acme/%2E%2E/logs", 404),
        ("/v1/repos/acme/a%2Fb/logs", 422),
    ],
)
async def test_a_name_that_changes_the_path_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost, target: str, expected: int
) -> None:
    assert await status(door, target=target) == expected
    assert host.asked == []


async def test_a_renamed_repository_stays_readable_by_its_number(
    door: FrontDoor, host: SourceHost
) -> None:
    host.rename("Acme/Widgets", "elsewhere/gizmos")
    assert await status(door) == 200
    assert [path for path, _ in host.asked] == ["/repos/acme/widgets", "/repositories/1000"]


@pytest.mark.parametrize(
    "location",
    [
        "{base}/repos/elsewhere/gizmos",
        "https://elsewhere.example/repositories/1000",
        "{base}.elsewhere.example/repositories/1000",
        "//elsewhere.example/repositories/1000",
        "{base}/other/repositories/1000",
        "{base}/repositories/1000?a=b",
        "",
    ],
)
async def test_a_redirect_to_anything_else_opens_nothing(
    door: FrontDoor, host: SourceHost, location: str
) -> None:
    host.saying = Saying(301, {"Location": location.format(base=host.base)})
    assert await status(door) == 404
    assert len(host.asked) == 1


async def test_a_response_about_another_repository_grants_nothing(
    door: FrontDoor, host: SourceHost
) -> None:
    host.saying = Saying(200, body=b'{"id": 2, "full_name": "acme/other"}')
    assert await status(door) == 404


async def test_the_token_of_an_installation_reads_what_it_is_shown(
    door: FrontDoor, host: SourceHost
) -> None:
    # An installation token belongs to no user, and has none of a user's permissions.
    permissions = b'"permissions": {"admin": false, "push": false, "pull": false}'
    host.saying = Saying(200, body=b'{"id": 2, "full_name": "acme/widgets", %s}' % permissions)
    assert await status(door) == 200


async def test_a_long_description_of_a_repository_is_read(
    door: FrontDoor, host: SourceHost
) -> None:
    about = b"x" * 200_000
    host.saying = Saying(200, body=b'{"full_name": "acme/widgets", "description": "%s"}' % about)
    assert await status(door) == 200


@pytest.mark.parametrize("body", [b"", b"<html>Welcome", b"[]", b"{}", b"x" * 300_000])
async def test_a_200_without_a_repository_decides_nothing(
    door: FrontDoor, host: SourceHost, body: bytes
) -> None:
    host.saying = Saying(200, body=body)
    assert await status(door) == 503


LIMITS = [
    Saying(
        403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOON.timestamp()) + 9)}
    ),
    Saying(403, {"Retry-After": "9"}),
    Saying(429, {"Retry-After": "9"}),
]


@pytest.mark.parametrize("saying", LIMITS, ids=["reset", "403", "429"])
async def test_a_limit_of_the_host_is_passed_on_and_kept_to(
    door: FrontDoor, host: SourceHost, saying: Saying
) -> None:
    host.add("acme/gadgets", TOKEN, "another")
    host.saying = saying
    answer = await door.get(LOGS, key=TOKEN)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "9")
    assert await status(door, target=operations("acme", "gadgets")["events"]) == 503
    assert len(host.asked) == 1
    host.saying = None
    assert await status(door, "another", operations("acme", "gadgets")["events"]) == 200
    door.clock.now = after(seconds=9)
    assert await status(door) == 200


class Clock:
    """A monotonic clock that only a test moves."""

    def __init__(self) -> None:
        self.seconds = time.monotonic()

    def monotonic(self) -> float:
        return self.seconds


async def test_a_limit_of_the_host_is_kept_to_for_its_whole_time(
    door: FrontDoor, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(access, "time", clock)
    monkeypatch.setattr(lru, "time", clock)
    host.saying = Saying(429, {"Retry-After": "9"})
    assert await status(door) == 503
    host.saying = None
    clock.seconds += 8
    assert await status(door) == 503
    clock.seconds += 2
    assert await status(door) == 200


@pytest.mark.parametrize("code", [400, 418, 500, 502, 503, 504])
async def test_a_host_that_is_not_well_is_a_503_that_says_when_to_come_back(
    door: FrontDoor, host: SourceHost, code: int
) -> None:
    host.saying = Saying(code)
    answer = await door.get(LOGS, key=TOKEN)
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) > 0
    host.saying = None
    assert await status(door) == 200


@pytest.mark.parametrize(
    ("saying", "reason"),
    [
        (Saying(502), "status 502"),
        (Saying(200, body=b"<html>"), "status 200, but no description of a repository"),
        (LIMITS[2], "the rate limit of the token is used up, status 429"),
    ],
)
async def test_the_log_says_why_there_is_no_decision(
    door: FrontDoor, host: SourceHost, caplog: pytest.LogCaptureFixture, saying: Saying, reason: str
) -> None:
    caplog.set_level("WARNING")
    host.saying = saying
    assert await status(door) == 503
    assert read_reasons(caplog) == [reason]


def read_reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the reasons of the log lines about the code host."""
    lines = [each for each in caplog.records if each.getMessage() == "code host unavailable"]
    return [vars(each)["reason"] for each in lines]


@pytest.mark.parametrize("code", [403, 404, 410, 451])
async def test_a_repository_that_the_host_refuses_is_not_found(
    door: FrontDoor, host: SourceHost, code: int
) -> None:
    host.saying = Saying(code)
    assert await status(door) == 404


async def test_the_host_times_out_before_the_client_does(
    door: FrontDoor, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.is_silent = True
    assert TOTAL_SECONDS < 2
    monkeypatch.setattr("service.auth.code_host.client.TOTAL_SECONDS", 0.2)
    for _ in range(MAX_CONSECUTIVE_FAILURES):
        assert await status(door) == 503
    asked = len(host.asked)
    assert await status(door) == 503
    assert len(host.asked) == asked


async def test_only_failures_in_a_row_stop_requests_to_the_host(
    door: FrontDoor, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_silent(*, silent: bool) -> None:
        host.is_silent = silent
        # On a busy machine, even an answer takes time.
        monkeypatch.setattr(client, "TOTAL_SECONDS", 0.2 if silent else 60.0)

    be_silent(silent=True)
    for number in range(MAX_CONSECUTIVE_FAILURES - 1):
        assert await status(door, f"made-up-{number}") == 503
    be_silent(silent=False)
    assert await status(door) == 200
    be_silent(silent=True)
    assert await status(door, "made-up-again") == 503
    asked = len(host.asked)
    assert await status(door, "made-up-at-last") == 503
    assert len(host.asked) == asked + 1


async def test_equal_checks_share_one_request_to_the_host(
    door: FrontDoor, host: SourceHost
) -> None:
    host.open.clear()
    first = asyncio.create_task(door.get(LOGS, key=TOKEN))
    others = [asyncio.create_task(door.get(TESTS + "/x", key=TOKEN)) for _ in range(3)]
    same = [asyncio.create_task(door.get(f"{LOGS}?per_page={n}", key=TOKEN)) for n in range(1, 9)]
    await host.arrived.wait()
    # The client whose request started the check disconnects.
    first.cancel()
    host.open.set()
    assert {(await each).status for each in same} == {200}
    assert {(await each).status for each in others} == {422}
    assert len(host.asked) == 1


async def test_made_up_tokens_that_wait_are_limited(
    door: FrontDoor, host: SourceHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TOTAL_SECONDS", 60.0)
    monkeypatch.setattr(access, "SLOT_SECONDS", 60.0)
    code_host = door.app[CONTEXT].code_host
    assert code_host is not None
    assert await status(door) == 200
    door.clock.now += GRANT_LIFETIME
    host.open.clear()
    numbers = range(MAX_WAITING_UNKNOWN)
    flood = [asyncio.create_task(status(door, f"made-up-{number}")) for number in numbers]
    await until(lambda: code_host._waiting == MAX_WAITING_UNKNOWN)
    more = asyncio.create_task(status(door, "made-up-more"))
    await until(lambda: more.done() or code_host._waiting > MAX_WAITING_UNKNOWN)
    assert code_host._waiting <= MAX_WAITING_UNKNOWN
    # One that was valid the last time may wait beside them.
    good = asyncio.create_task(status(door))
    await until(lambda: good.done() or code_host._waiting > MAX_WAITING_UNKNOWN)
    assert not good.done()
    host.open.set()
    assert (await more, await good) == (503, 200)
    assert {await each for each in flood} == {403}


@pytest.mark.slow
async def test_a_token_is_in_no_log_and_in_no_answer(
    door: FrontDoor, host: SourceHost, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogLevel.DEBUG, LogFormat.JSON)
    for saying in (None, Saying(500), Saying(403), Saying(301, {"Location": TOKEN}), GOOD):
        host.saying = saying
        door.clock.now += timedelta(hours=1)
        answer = await door.get(LOGS, key=TOKEN)
        assert TOKEN not in answer.body.decode() + str(answer.headers)
    host.is_silent = True
    door.clock.now += timedelta(hours=1)
    await door.get(LOGS, key=TOKEN)
    written = capsys.readouterr().err
    assert "code host unavailable" in written
    assert TOKEN not in written


async def test_made_up_tokens_leave_slots_for_those_that_were_valid(
    tmp_path: Path,
    host: SourceHost,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    monkeypatch.setattr(client, "LOGGED_EVERY", float("inf"))
    # A long timeout, so that on any machine only this test releases the held requests.
    monkeypatch.setattr(client, "TOTAL_SECONDS", 60.0)
    settings = Settings(data_dir=tmp_path, host_api_url=host.base)
    async for door in open_door(settings):
        assert await status(door) == 200
        door.clock.now += GRANT_LIFETIME
        host.open.clear()
        flood = [
            asyncio.create_task(status(door, f"made-up-{number}"))
            for number in range(MAX_WAITING_UNKNOWN)
        ]
        done = asyncio.as_completed(flood)
        first = [await next(done) for _ in range(len(flood) - MAX_CONCURRENT_UNKNOWN)]
        assert {*first} == {503}
        # One line for all of them.
        assert read_reasons(caplog) == ["too many requests to it are in progress"]
        good = asyncio.create_task(status(door))
        host.arrived.clear()
        await host.arrived.wait()
        host.open.set()
        assert await good == 200
        assert {await rest for rest in done} == {403}
        # Waiting for a slot does not count as a timeout of the host.
        assert await status(door, "made-up") == 403
