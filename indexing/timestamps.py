"""Converts points in time: RFC 3339 in, UTC with `Z` out, microseconds for storage.

Every `datetime` of this project is aware and in UTC. Nothing here reads a clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from indexing.errors import InvalidValueError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The first and the last moment that a `datetime` can be.
EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime.max.replace(tzinfo=UTC)
HOUR_MICROSECONDS: Final = 3_600_000_000
DAY_MICROSECONDS: Final = 24 * HOUR_MICROSECONDS
# The least difference of two times.
MICROSECOND: Final = timedelta(microseconds=1)

# RFC 3339, section 5.6, with up to nine fractional digits. ASCII digits only: `\d` matches more. A
# form decoder may turn the `+` of an offset into a space; that is accepted.
_RFC_3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]"
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:([Zz])|([+\- ])([0-9]{2}):([0-9]{2}))"
)
# The usual form, in UTC. Neither a leap second, which Python refuses, nor the hour 24, which some
# versions of it accept.
_PLAIN: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?Z"
)
# The length of the plain form without a fraction.
_WHOLE_SECONDS: Final = len("2026-01-31T12:00:00Z")


def lasts(since: datetime | None, length: timedelta, now: datetime) -> bool:
    """Return whether less than `length` has passed since that moment; false without a moment.

    A moment in the future was read from a clock that has been put back: its time counts as over.
    """
    return since is not None and since <= now < since + length


def parse_timestamp(text: str) -> datetime:
    """Parse an RFC 3339 timestamp with a zone.

    Digits beyond microseconds are cut off. A leap second becomes the second after it.

    Raises:
        InvalidValueError: the text is not such a timestamp, or is outside the years 1 to 9999.
    """
    try:
        if _PLAIN.fullmatch(text):
            # This takes a third of the time of what follows.
            return datetime.fromisoformat(text)
        return _parse_any(text)
    except (ValueError, OverflowError) as error:
        raise InvalidValueError("must be a date and time that exists") from error


def _parse_any(text: str) -> datetime:
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise InvalidValueError(
            "must be an RFC 3339 timestamp with a zone, such as 2026-01-31T12:00:00Z"
        )
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, zulu, sign, offset_hours, offset_minutes = match.groups()[6:]
    leap = 1 if second == 60 else 0
    zone = UTC
    if not zulu:
        if int(offset_hours) > 23 or int(offset_minutes) > 59:
            raise ValueError("offset out of range")
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes))
        zone = timezone(-offset if sign == "-" else offset)
    microsecond = int((fraction or "0").ljust(6, "0")[:6])
    local = datetime(year, month, day, hour, minute, second - leap, microsecond, tzinfo=zone)
    return (local + timedelta(seconds=leap)).astimezone(UTC)


def normalise_timestamp(text: str) -> str:
    """Return `format_timestamp(parse_timestamp(text))`; fast for texts in that form already.

    Raises:
        InvalidValueError: as `parse_timestamp`.
    """
    moment = parse_timestamp(text)
    # A time in UTC without a fraction. A leap second is not plain.
    if len(text) == _WHOLE_SECONDS and _PLAIN.fullmatch(text):
        return text
    return format_timestamp(moment)


def format_timestamp(moment: datetime) -> str:
    """Write a moment as `2026-01-31T12:00:00Z`, with six fractional digits if there are any."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def to_microseconds(moment: datetime) -> int:
    """Return the exact number of microseconds since 1970; negative for earlier moments."""
    return (moment - EPOCH) // MICROSECOND


def from_microseconds(count: int) -> datetime:
    """Return the moment for a number from `to_microseconds`."""
    return EPOCH + timedelta(microseconds=count)


def microseconds_or_none(moment: datetime | None) -> int | None:
    """Return the microseconds of a moment; `None` for `None`."""
    return None if moment is None else to_microseconds(moment)


def moment_or_none(number: int | None) -> datetime | None:
    """Return the moment for a number of microseconds; `None` for `None`."""
    return None if number is None else from_microseconds(number)
