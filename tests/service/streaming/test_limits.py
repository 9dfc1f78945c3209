"""A credential, and a process, has a limited number of open streams."""

from __future__ import annotations

import pytest

from service.http.problems import Problem
from service.streaming.limits import StreamLimit


def test_a_stream_that_ends_makes_room_for_one() -> None:
    limit = StreamLimit(3, 10)
    release, *_ = [limit.acquire("a") for _ in range(3)]
    release()
    limit.acquire("a")
    with pytest.raises(Problem):
        limit.acquire("a")
    assert limit.open == 3


def test_a_stream_is_released_once() -> None:
    limit = StreamLimit(1, 1)
    release = limit.acquire("a")
    release()
    release()
    again = limit.acquire("a")
    release()
    assert limit.open == 1
    again()
    assert limit.open == 0
