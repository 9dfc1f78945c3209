"""The bars of a histogram cover its range, and a facet has its most frequent values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.models.event_aggregates import (
    MAX_BARS,
    MAX_FACET_VALUES,
    MIN_BARS,
    FacetValue,
    choose_bars,
    rank,
)

moments = st.datetimes(timezones=st.just(UTC))
START = datetime(2026, 11, 20, 13, 7, 21, 5, tzinfo=UTC)


@given(moments, moments)
def test_the_bars_cover_the_range(one: datetime, other: datetime) -> None:
    start, end = sorted((one, other))
    bars = choose_bars(start, end)
    if start == end:
        assert bars.count == 0
        return
    # A range of a few microseconds cannot have more bars.
    assert min(MIN_BARS, (end - start) // timedelta(microseconds=1)) <= bars.count <= MAX_BARS
    found = [bars.bounds(number) for number in range(bars.count)]
    assert found[0][0] <= start < found[0][1]
    assert found[-1][0] < end <= found[-1][1]
    for (_, left), (right, _) in pairwise(found):
        assert left == right


@given(st.integers(30, 400 * 86_400 * 1_000_000))
def test_there_are_thirty_to_a_hundred_and_twenty(microseconds: int) -> None:
    bars = choose_bars(START, START + timedelta(microseconds=microseconds))
    assert MIN_BARS <= bars.count <= MAX_BARS


@pytest.mark.parametrize(
    ("range_", "seconds"),
    [
        (timedelta(seconds=30), 0.5),
        (timedelta(hours=1), 60),
        (timedelta(days=1), 900),
        (timedelta(days=7), 7_200),
        (timedelta(days=30), 12 * 3_600),
        (timedelta(days=365), 5 * 86_400),
    ],
)
def test_their_size_is_a_round_one(range_: timedelta, seconds: float) -> None:
    assert choose_bars(START, START + range_).seconds == seconds


@given(st.integers(0, 300), st.integers(1, 200), st.randoms(use_true_random=False))
def test_a_facet_has_the_most_frequent_values_and_the_smallest_of_equally_frequent_ones(
    values: int, most: int, random: Random
) -> None:
    counts = {value: random.randint(1, most) for value in random.sample(range(1_000), values)}
    ranked = sorted(counts, key=lambda value: (-counts[value], value))[:MAX_FACET_VALUES]
    assert rank(counts) == tuple(FacetValue(value, counts[value]) for value in ranked)
