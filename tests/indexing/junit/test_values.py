"""Durations and times in every spelling that report producers use."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.junit.values import parse_duration, parse_report_timestamp
from indexing.models.executions import MAX_DURATION


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1.5", 1.5),
        (" 2 ", 2.0),
        ("1.7e-05", 1.7e-05),
        ("4.50611114501953e-05", 4.50611114501953e-05),
        ("1,024.12", 1024.12),
        ("1.024,12", 1024.12),
        ("12,345,678", 12_345_678.0),
        ("0,160", 0.16),
        ("1,5", 1.5),
        (".5", 0.5),
        ("80.803us", 80.803e-6),
        ("80.803µs", 80.803e-6),
        ("80.803\u03bcs", 80.803e-6),
        ("12ms", 0.012),
        ("3 s", 3.0),
        ("2min", 120.0),
        (None, None),
        ("", None),
        ("N/A", None),
        ("-1", None),
        ("-0.5", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("3162240000", 3_162_240_000.0),
        ("3162240001", None),
        ("1e300", None),
        ("1.2.3,4,5", None),
        ("1.024.000", 1_024_000.0),
        ("3 parsecs", None),
        ("\u0661", None),
        ("9" * 100_000, None),
    ],
)
def test_a_duration_is_read_in_seconds(text: str | None, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:30:15", datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC)),
        ("2026-01-31 12:30:15", datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC)),
        ("2026-01-31T12:30", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:30:15.1234567", datetime(2026, 1, 31, 12, 30, 15, 123456, tzinfo=UTC)),
        ("2026-01-31T12:30:15,5", datetime(2026, 1, 31, 12, 30, 15, 500000, tzinfo=UTC)),
        ("2026-01-31T12:30:15Z", datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC)),
        ("2026-01-31T12:30:15 UTC", datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC)),
        ("2026-01-31T12:30:15+02:00", datetime(2026, 1, 31, 10, 30, 15, tzinfo=UTC)),
        ("2026-01-31T12:30:15-0530", datetime(2026, 1, 31, 18, 0, 15, tzinfo=UTC)),
        ("2026-01-31T12:30:15+02", datetime(2026, 1, 31, 10, 30, 15, tzinfo=UTC)),
        ("Sat, 31 Jan 2026 12:30:15 GMT", datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC)),
        ("3 Dec 2026 09:30:15 GMT", datetime(2026, 12, 3, 9, 30, 15, tzinfo=UTC)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("31 Feb 2026 12:30:15 GMT", None),
        ("31 Foo 2026 12:30:15 GMT", None),
        ("31 Jan 2026 12:30:15 CET", None),
        ("0001-01-01T00:00:00", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("1601-01-01T00:00:00Z", None),
        ("1970-01-01T00:00:00.000", None),
        ("1999-12-31T23:59:59Z", None),
        ("2000-01-01T00:00:00Z", datetime(2000, 1, 1, tzinfo=UTC)),
        ("2026-02-30T00:00:00", None),
        ("2026-01-31T25:00:00", None),
        ("1767225600", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_a_timestamp_is_read_in_utc(text: str | None, moment: datetime | None) -> None:
    assert parse_report_timestamp(text) == moment


@given(st.text("0123456789.,eE+-:TZ usmhn", max_size=40))
def test_no_text_is_read_as_a_duration_or_time_that_cannot_be(text: str) -> None:
    seconds = parse_duration(text)
    assert seconds is None or 0 <= seconds <= MAX_DURATION
    moment = parse_report_timestamp(text)
    assert moment is None or moment.year >= 2000


@given(st.datetimes(timezones=st.just(UTC)).filter(lambda moment: moment.year >= 2000))
def test_any_time_without_zone_is_utc(moment: datetime) -> None:
    assert parse_report_timestamp(moment.replace(tzinfo=None).isoformat()) == moment
