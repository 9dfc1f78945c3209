from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.redis import COMMAND_TIMEOUT, Redis


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    with Redis(tmp_path, password='with "quotes" and \\') as started:
        yield started


def test_a_killed_server_comes_back_empty_on_the_same_url(redis: Redis) -> None:
    url = redis.url
    redis.command("SET", "key", "value")
    redis.kill()
    with pytest.raises(ConnectionRefusedError):
        redis.command("PING")
    redis.restart()
    assert redis.command("EXISTS", "key") == ":0"
    assert redis.url == url


@pytest.mark.parametrize(
    ("make", "reason"), [(Redis.make_full, "^-OOM"), (Redis.make_read_only, "^-READONLY")]
)
def test_a_full_or_read_only_server_refuses_to_store_and_still_reads(
    redis: Redis, make: Callable[[Redis], None], reason: str
) -> None:
    redis.command("SET", "key", "value")
    make(redis)
    with pytest.raises(ConnectionError, match=reason):
        redis.command("SET", "other", "value")
    assert redis.command("EXISTS", "key") == ":1"
    redis.make_whole()
    assert redis.command("SET", "other", "value") == "+OK"


def test_a_suspended_server_accepts_and_does_not_answer_until_it_is_resumed(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.suspend()
    monkeypatch.setattr("tests.servers.redis.COMMAND_TIMEOUT", COMMAND_TIMEOUT / 50)
    with pytest.raises(TimeoutError):
        redis.command("PING")
    redis.resume()
    monkeypatch.undo()
    assert redis.command("PING") == "+PONG"


def test_one_server_serves_the_tests_of_a_session(redis_url: str) -> None:
    assert redis_url.startswith("redis://")
