"""The time range of the parameters `start` and `end`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from service.http.field_errors import FieldError
from service.pagination.cursor import TimeRange
from service.schemas.limits import DEFAULT_RANGE, MAX_RANGE

_MINUTE: Final = timedelta(minutes=1)
# How much longer a range without `end` may be: it ends with the current minute, and a client
# computes `start` some time before the request arrives.
_SLACK: Final = 2 * _MINUTE


def choose_range(parameters: Mapping[str, Any], now: datetime) -> TimeRange:
    """Return the range from `start` to `end`; a missing bound is filled in.

    Without `end`, the whole current minute is included, so that requests within it share an entity
    tag.
    """
    end: datetime | None = parameters["end"]
    next_minute = now.replace(second=0, microsecond=0) + _MINUTE
    return TimeRange.fill_in(parameters["start"], end, next_minute, DEFAULT_RANGE)


def find_range_errors(parameters: Mapping[str, Any], now: datetime) -> list[FieldError]:
    """Return the error of a range that is too long; none if one of its bounds is invalid."""
    if not {"start", "end"} <= parameters.keys():
        return []
    found = choose_range(parameters, now)
    longest = MAX_RANGE if parameters["end"] is not None else MAX_RANGE + _SLACK
    if found.end - found.start <= longest:
        return []
    detail = f"must be at most {MAX_RANGE.days} days before the end of the range"
    return [FieldError("query", "start", detail)]
