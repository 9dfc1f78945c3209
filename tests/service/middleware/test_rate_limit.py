"""The rate limit of a credential, if the operator sets one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis as Client

from indexing import lru
from service.cache.redis_connector import LIMIT_SECONDS
from service.config.settings import Settings
from service.handlers import event_stream
from service.middleware import rate_counters, rate_limit
from service.streaming import lasting_access
from tests.servers.redis import Redis
from tests.service.conftest import limit_redis, open_door
from tests.service.front_door import LOGS, Answer, FrontDoor, operations
from tests.source_host import open_host

QUOTA = 5


def left(answer: Answer) -> int:
    found = re.fullmatch(r'"credential";r=(\d+);t=(\d+)', answer.headers["RateLimit"])
    assert found is not None
    assert 0 < int(found[2]) <= 86_400
    return int(found[1])


def settings_of(data_dir: Path, redis_url: str | None = None) -> Settings:
    return Settings(data_dir=data_dir, rate_limit=f"{QUOTA}/day", redis_url=redis_url)


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(settings_of(tmp_path)):
        yield opened


async def test_nothing_is_limited_unless_a_limit_is_set(door: FrontDoor) -> None:
    assert "RateLimit" not in (await door.get(LOGS)).headers


@pytest.mark.parametrize("name", operations())
async def test_a_credential_has_its_requests_and_no_more(limited: FrontDoor, name: str) -> None:
    answers = [await limited.get(operations()[name]) for _ in range(QUOTA)]
    assert 429 not in {answer.status for answer in answers}
    assert [left(answer) for answer in answers] == [4, 3, 2, 1, 0]
    refused = await limited.get(operations()[name])
    assert (refused.status, left(refused)) == (429, 0)
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    assert refused.headers["RateLimit-Policy"] == f'"credential";q={QUOTA};w=86400'


class Clock:
    """Both clocks of the counters, which stand still until a test sets them."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return self.seconds


async def test_a_window_ends_a_day_after_its_first_request(
    limited: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in (rate_counters, rate_limit, lru):
        monkeypatch.setattr(module, "time", clock)
    assert left(await limited.get(LOGS)) == 4
    clock.seconds += 86_399.9
    last = await limited.get(LOGS)
    assert last.headers["RateLimit"] == '"credential";r=3;t=1'
    clock.seconds += 0.1
    following = await limited.get(LOGS)
    assert following.headers["RateLimit"] == '"credential";r=4;t=86400'


async def test_every_credential_has_its_own(limited: FrontDoor) -> None:
    for _ in range(QUOTA + 1):
        await limited.get(LOGS)
    assert (await limited.get(LOGS)).status == 429
    assert (await limited.get(LOGS, key=await limited.new_key())).status == 200


async def test_what_is_refused_for_other_reasons_counts_too(limited: FrontDoor) -> None:
    targets = [f"{LOGS}?per_page=0", "/v1/repos/ac_me/w/logs", "/v1/repos/no/no/logs"] * 2
    statuses = [(await limited.get(target)).status for target in targets]
    assert statuses == [422, 422, 404, 422, 422, 429]


async def test_an_open_stream_spends_one_request(
    limited: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_access, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(event_stream, "COMMENT_SECONDS", 0.01)
    headers = {"Authorization": f"Bearer {limited.key}"}
    async with limited.client.get(f"{limited.base}{LOGS}/stream", headers=headers) as stream:
        # Access is checked again before each comment.
        for _ in range(2 * QUOTA):
            await stream.content.readuntil(b": \n\n")
        assert left(await limited.get(LOGS)) == QUOTA - 2


async def test_a_request_without_credential_is_refused_and_not_counted(limited: FrontDoor) -> None:
    statuses = {(await limited.get(LOGS, key="mw_bad")).status for _ in range(QUOTA * 2)}
    assert statuses == {403}
    assert (await limited.get(LOGS)).status == 200


async def test_health_is_not_counted(limited: FrontDoor) -> None:
    for _ in range(QUOTA * 2):
        answer = await limited.get("/health/ready")
        assert (answer.status, "RateLimit" in answer.headers) == (200, False)


async def test_a_token_of_the_host_is_counted_over_all_repositories(tmp_path: Path) -> None:
    async with open_host() as host:
        host.add("acme/widgets", "token")
        settings = Settings(data_dir=tmp_path, rate_limit=f"{QUOTA}/day", host_api_url=host.base)
        async for door in open_door(settings):
            targets = [LOGS, operations("acme", "gadgets")["events"]] * 3
            statuses = [(await door.get(target, key="token")).status for target in targets]
            assert statuses == [200, 404, 200, 404, 200, 429]


async def test_a_token_over_its_rate_limit_is_not_sent_to_the_host(
    tmp_path: Path,
) -> None:
    async with open_host() as host:
        host.add("acme/widgets", "token")
        settings = Settings(data_dir=tmp_path, rate_limit=f"{QUOTA}/day", host_api_url=host.base)
        async for door in open_door(settings):
            answers = [
                await door.get(operations("acme", f"r{number}")["events"], key="token")
                for number in range(QUOTA + 3)
            ]
        assert [answer.status for answer in answers] == [404] * QUOTA + [429] * 3
        assert len(host.asked) == QUOTA
        refused = answers[-1]
        assert left(refused) == 0
        assert refused.headers["RateLimit"].endswith(f";t={refused.headers['Retry-After']}")


async def test_a_token_that_the_host_does_not_know_is_counted_nowhere(tmp_path: Path) -> None:
    async with open_host() as host:
        settings = Settings(data_dir=tmp_path, rate_limit=f"{QUOTA}/day", host_api_url=host.base)
        async for door in open_door(settings):
            answers = [await door.get(LOGS, key="made-up") for _ in range(QUOTA * 2)]
        assert {answer.status for answer in answers} == {403}
        assert not any("RateLimit" in answer.headers for answer in answers)


async def test_two_processes_count_together_by_redis(tmp_path: Path, redis_url: str) -> None:
    async for one in open_door(settings_of(tmp_path, redis_url)):
        async for other in open_door(settings_of(tmp_path, redis_url)):
            other.key = one.key
            found = [left(await door.get(LOGS)) for door in (one, other, one, other, one)]
            assert found == [4, 3, 2, 1, 0]
            assert (await other.get(LOGS)).status == 429


async def test_a_count_without_an_expiry_gets_one(tmp_path: Path) -> None:
    with Redis(tmp_path / "redis") as redis:
        async for door in open_door(settings_of(tmp_path, redis.url)):
            await door.get(LOGS)
            async with Client.from_url(redis.url) as client:
                names = [name async for name in client.scan_iter()]
                lasting = [name for name in names if await client.persist(name)]
                await door.get(LOGS)
                ends = [await client.pttl(name) for name in lasting]
            # The others are cached values, whose expiry is not set again.
            assert max(ends) > 0


async def test_a_window_ends_when_redis_says(tmp_path: Path) -> None:
    with Redis(tmp_path / "redis") as redis:
        async for door in open_door(settings_of(tmp_path, redis.url)):
            await door.get(LOGS)
            async with Client.from_url(redis.url) as client:
                # As if another process had begun the window nearly a day ago.
                assert await client.pexpire(await find_count(client), 60_000)
            header = (await door.get(LOGS)).headers["RateLimit"]
            assert 0 < int(header.rpartition("=")[2]) <= 60


async def test_after_an_outage_the_counts_of_redis_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Redis(tmp_path / "redis") as redis:
        settings = Settings(data_dir=tmp_path, rate_limit="10000/day", redis_url=redis.url)
        async for door in open_door(settings):
            await door.get(LOGS)
            async with Client.from_url(redis.url) as client:
                await client.set(await find_count(client), 5_000, keepttl=True)
            assert left(await door.get(LOGS)) == 4_999
            redis.suspend()
            limit_redis(monkeypatch, LIMIT_SECONDS)
            assert left(await door.get(LOGS)) == 9_999
            redis.resume()
            found = 9_999
            async with asyncio.timeout(20):
                while found > 4_999:
                    found = left(await door.get(LOGS))
            assert found < 4_999


async def find_count(client: Client) -> bytes:
    """Return the key of the only counter."""
    (name,) = [name async for name in client.scan_iter("*count:*")]
    return bytes(name)


async def test_without_its_redis_a_process_counts_for_itself(tmp_path: Path) -> None:
    with Redis(tmp_path / "redis") as redis:
        async for door in open_door(settings_of(tmp_path, redis.url)):
            assert [left(await door.get(LOGS)) for _ in range(3)] == [4, 3, 2]
            redis.kill()
            answers = [await door.get(LOGS) for _ in range(QUOTA + 1)]
            assert [left(answer) for answer in answers] == [4, 3, 2, 1, 0, 0]
            assert [answer.status for answer in answers] == [200] * QUOTA + [429]
