"""Reads values of attributes in the forms that report writers use; returns `None` for others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from indexing.accepted_times import EARLIEST_ACCEPTED
from indexing.errors import InvalidValueError
from indexing.models.executions import MAX_DURATION
from indexing.timestamps import parse_timestamp

# Seconds unless the writer gives a unit. The micro sign and the Greek letter are both in use.
_SECONDS: Final = {
    "": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}

# No duration is longer; this avoids parsing a megabyte of digits.
_DURATION_MAX_LENGTH: Final = 64
_DURATION: Final = re.compile(
    r"([0-9][0-9.,]*|[.,][0-9]+)([eE][+\-]?[0-9]{1,3})?\s*([A-Za-z\u00b5\u03bc]*)"
)

_TIMESTAMP_MAX_LENGTH: Final = 64
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:[.,]([0-9]+))?"
    r"\s*(?:([Zz]|UTC|GMT)|([+\-][0-9]{2}):?([0-9]{2})?)?)?"
)

# `Tue, 13 Feb 2024 10:28:58 GMT` of JavaScript's `toUTCString`, in the reports of mocha and
# TestCafe, and `26 Jun 2018 15:41:26 GMT` of Java's `toGMTString`, in those of TestNG.
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_GMT: Final = re.compile(
    r"(?:[A-Za-z]{3},\s+)?([0-9]{1,2})\s+([A-Za-z]{3})\s+([0-9]{4})"
    r"\s+([0-9]{2}:[0-9]{2}:[0-9]{2})\s+(?:GMT|UTC)"
)


def find_stated(attributes: Mapping[str, str], name: str) -> str | None:
    """Return the value of an attribute; `None` if it is missing or blank."""
    value = attributes.get(name)
    return value if value and not value.isspace() else None


def parse_duration(text: str | None) -> float | None:
    """Return the seconds of a `time` attribute.

    `.` and `,` group thousands and mark decimals; the last one is the decimal mark. A single comma
    is a decimal mark too: such locales are more common than durations of thousands of seconds. A
    unit may follow the number. Returns `None` for negative numbers, words, and durations that no
    test takes.
    """
    if text is None or len(text) > _DURATION_MAX_LENGTH:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    number, exponent, unit = match.groups(default="")
    scale = _SECONDS.get(unit.lower())
    if scale is None:
        return None
    try:
        seconds = float(_with_plain_decimals(number) + exponent) * scale
    except ValueError:
        return None
    return seconds if seconds <= MAX_DURATION else None


def parse_report_timestamp(text: str | None) -> datetime | None:
    """Return the moment of a `timestamp` attribute, in UTC.

    A missing zone means UTC, a missing time of day midnight. `None` for text that is not a date,
    and for dates before 2000: writers without a time use the zero of their platform, in the years
    1, 1601, 1900 or 1970.
    """
    if text is None or len(text) > _TIMESTAMP_MAX_LENGTH:
        return None
    stated = _to_rfc_3339(text.strip())
    try:
        moment = None if stated is None else parse_timestamp(stated)
    except InvalidValueError:
        return None
    return moment if moment is not None and moment >= EARLIEST_ACCEPTED else None


def _to_rfc_3339(text: str) -> str | None:
    """Write a timestamp as RFC 3339 does; return `None` if its form is unknown."""
    match = _TIMESTAMP.fullmatch(text)
    if match is not None:
        day, minutes, seconds, fraction, _, hours_off, minutes_off = match.groups()
        zone = f"{hours_off}:{minutes_off or '00'}" if hours_off else "Z"
        fine = f".{fraction[:9]}" if fraction else ""
        return f"{day}T{minutes or '00:00'}{seconds or ':00'}{fine}{zone}"
    match = _GMT.fullmatch(text)
    if match is None or match[2].lower() not in _MONTHS:
        return None
    month = 1 + _MONTHS.index(match[2].lower())
    return f"{match[3]}-{month:02}-{match[1]:0>2}T{match[4]}Z"


def _with_plain_decimals(number: str) -> str:
    """Drop group separators and turn the decimal mark into `.`; leave other text unchanged."""
    if "," not in number and number.count(".") <= 1:
        return number
    mark = "." if number.rfind(".") > number.rfind(",") else ","
    grouping = "," if mark == "." else "."
    if number.count(mark) > 1:
        return number.replace(mark, "") if grouping not in number else number
    return number.replace(grouping, "").replace(mark, ".")
