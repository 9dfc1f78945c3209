"""How many rows the next write has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexing.store.pace import Pace


def a_pace() -> Pace:
    return Pace(seconds=1.0, rows=200, least=50, most=2_000)


def test_fast_writes_grow_to_the_most_by_doubling() -> None:
    pace = a_pace()
    sizes = []
    for _ in range(5):
        pace.learn(pace.rows, 0.001)
        sizes.append(pace.rows)
    assert sizes == [400, 800, 1_600, 2_000, 2_000]


def test_a_slow_write_is_followed_by_one_that_fits() -> None:
    pace = a_pace()
    pace.learn(200, 2.0)
    assert pace.rows == 100


def test_a_small_fast_write_tells_nothing() -> None:
    pace = a_pace()
    pace.learn(3, 0.9)
    assert pace.rows == 200


def test_a_small_write_that_was_slow_counts() -> None:
    pace = a_pace()
    pace.learn(100, 1.25)
    assert pace.rows == 80


@given(st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 1e9))))
def test_the_size_stays_within_its_bounds(writes: list[tuple[int, float]]) -> None:
    pace = a_pace()
    for rows, seconds in writes:
        pace.learn(rows, seconds)
        assert 50 <= pace.rows <= 2_000
