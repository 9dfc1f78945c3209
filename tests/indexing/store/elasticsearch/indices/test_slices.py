"""Time slices: every time has one, and a range lists all that it overlaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.store.elasticsearch.indices.slices import (
    EARLY,
    FIRST_YEAR,
    LAST_YEAR,
    LATE,
    ends_before,
    slice_of,
    slices_between,
)

MOMENTS = st.integers(0, (LAST_YEAR - FIRST_YEAR + 4) * 366 * 24).map(
    lambda hours: datetime(FIRST_YEAR - 2, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2026, 11, 1, tzinfo=UTC), "2026-11"),
        (datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=UTC), "2026-11"),
        (datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), f"{FIRST_YEAR}-01"),
        (datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) - timedelta(microseconds=1), EARLY),
        (datetime(LAST_YEAR, 12, 31, 23, tzinfo=UTC), f"{LAST_YEAR}-12"),
        (datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC), LATE),
        (datetime.min.replace(tzinfo=UTC), EARLY),
        (datetime.max.replace(tzinfo=UTC), LATE),
    ],
)
def test_a_moment_has_one_slice_and_strays_share_one_on_either_side(
    moment: datetime, expected: str
) -> None:
    assert slice_of(moment) == expected


@given(start=MOMENTS, days=st.integers(0, 600), inside=st.floats(0, 1))
def test_a_range_names_the_slice_of_every_moment_in_it(
    start: datetime, days: int, inside: float
) -> None:
    end = start + timedelta(days=days)
    names = slices_between(start, end)
    assert names is not None
    assert slice_of(start + (end - start) * inside) in names
    assert len(names) == len(set(names)) <= days / 28 + 2


def test_a_range_of_many_years_is_not_spelled_out() -> None:
    assert (
        slices_between(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)) is None
    )


def test_a_range_that_ends_before_it_begins_touches_nothing() -> None:
    later = datetime(2026, 5, 1, tzinfo=UTC)
    assert slices_between(later, later - timedelta(days=40)) == []


@given(moment=MOMENTS, before=MOMENTS)
def test_only_a_slice_whose_every_moment_is_older_ends_before(
    moment: datetime, before: datetime
) -> None:
    if ends_before(slice_of(moment), before):
        assert moment < before
        assert slice_of(moment) != slice_of(before)
    else:
        assert moment >= before or slice_of(moment) == slice_of(before)
