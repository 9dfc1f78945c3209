"""A code host that cannot answer, limits its clients, or is slow; and floods of unknown tokens."""

from __future__ import annotations

import asyncio
import time
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
from service.config.settings import Settings
from service.context import CONTEXT
from tests.builders import NOON, after
from tests.service.auth.code_host.tokens import TOKEN, status
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, TESTS, FrontDoor, operations
from tests.source_host import Saying, SourceHost
from tests.waiting import until


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
