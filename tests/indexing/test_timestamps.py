"""Timestamps: RFC 3339 and nothing else is accepted, UTC is returned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.errors import InvalidValueError
from indexing.timestamps import (
    format_timestamp,
    from_microseconds,
    lasts,
    normalise_timestamp,
    parse_timestamp,
    to_microseconds,
)
from tests.builders import NOON

MOMENTS = st.datetimes(timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31t12:00:00z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00+05:30", "2026-01-31T06:30:00Z"),
        ("2026-01-31T12:00:00 05:30", "2026-01-31T06:30:00Z"),
        ("2026-01-31T23:00:00-23:59", "2026-02-01T22:59:00Z"),
        ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.500000Z"),
        ("2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00.123456Z"),
        ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_timestamp_is_parsed_and_written_in_utc(text: str, expected: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == expected
    assert normalise_timestamp(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00Z",
        "2026-02-30T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:61Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+05:60",
        "2026-01-31T12:00:00+0530",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:60Z",
        "\uff12\uff10\uff12\uff16-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z\n",
        "1767225600",
    ],
)
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="must be"):
        parse_timestamp(text)


@given(MOMENTS)
def test_what_is_written_is_read_back(moment: datetime) -> None:
    assert parse_timestamp(format_timestamp(moment)) == moment


@given(MOMENTS, st.text("0123456789", min_size=1, max_size=9))
def test_both_forms_of_utc_are_the_same_moment(moment: datetime, fraction: str) -> None:
    text = f"{moment.replace(microsecond=0, tzinfo=None).isoformat()}.{fraction}"
    assert parse_timestamp(f"{text}Z") == parse_timestamp(f"{text}+00:00")


@given(MOMENTS)
def test_microseconds_are_exact_and_keep_the_order(moment: datetime) -> None:
    number = to_microseconds(moment)
    assert from_microseconds(number) == moment
    if moment > datetime(1, 1, 2, tzinfo=UTC):
        assert to_microseconds(moment - timedelta(microseconds=1)) == number - 1


@given(st.timedeltas(timedelta(), timedelta(days=1)))
def test_a_length_of_time_ends_at_its_end_and_when_the_clock_is_put_back(length: timedelta) -> None:
    tick = timedelta(microseconds=1)
    assert lasts(NOON, length + tick, NOON + length)
    assert not lasts(NOON, length, NOON + length)
    assert not lasts(NOON, length, NOON - tick)
