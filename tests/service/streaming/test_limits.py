"""A credential, and a process, has a limited number of open streams."""

from __future__ import annotations

import pytest

from service.http.problems import Problem
from service.streaming.limits import StreamLimit


def test_a_stream_that_ends_makes_room_for_one() -> None:
    limit = StreamLimit(3, 10)
    release, *_ = [limit.acquire("a", "acme") for _ in range(3)]
    release()
    limit.acquire("a", "acme")
    with pytest.raises(Problem):
        limit.acquire("a", "acme")
    assert limit.open == 3


def test_a_stream_is_released_once() -> None:
    limit = StreamLimit(1, 1)
    release = limit.acquire("a", "acme")
    release()
    release()
    again = limit.acquire("a", "acme")
    release()
    assert limit.open == 1
    again()
    assert limit.open == 0


def test_one_owner_leaves_places_to_others() -> None:
    limit = StreamLimit(4, 32)
    releases = [limit.acquire(f"token {number // 4}", "acme") for number in range(28)]
    with pytest.raises(Problem, match="too many streams") as refused:
        limit.acquire("token 8", "ACME")
    assert refused.value.status == 503
    for number in range(4):
        limit.acquire(f"key {number}", "umbrella")
    with pytest.raises(Problem, match="too many streams"):
        limit.acquire("key 9", "initech")
    releases[0]()
    limit.acquire("token 8", "acme")
