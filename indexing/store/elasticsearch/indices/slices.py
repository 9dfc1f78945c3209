"""Time slices: returns which index of events or executions contains a time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

# A year outside this range comes from a wrong clock. Rows before it share one index, and rows after
# it another one, so that no client can cause an index for each month since the year 1.
FIRST_YEAR: Final = 2015
LAST_YEAR: Final = 2040
EARLY: Final = "early"
LATE: Final = "late"

# A request names at most this many slices; for more, it uses the pattern of all slices.
_MOST_NAMED: Final = 24


def slice_of(moment: datetime) -> str:
    """Return the name of the slice of this moment, usually its month in UTC.

    The name is the suffix of the index name.
    """
    if moment.year < FIRST_YEAR:
        return EARLY
    if moment.year > LAST_YEAR:
        return LATE
    return f"{moment.year:04}-{moment.month:02}"


def slices_between(start: datetime, end: datetime) -> list[str] | None:
    """Return the slices of a time range, newest first; None if they are too many to name.

    `end` is the first moment after the range.
    """
    found: list[str] = []
    for name in _down_from(end):
        found.append(name)
        if name == slice_of(start):
            return found
        if len(found) == _MOST_NAMED or start > end:
            break
    return None if start <= end else []


def indices_between(index_of: Callable[[str], str], start: datetime, end: datetime) -> str:
    """Return the indices of a time range, joined; naming no others makes a search cheaper.

    `index_of` returns the index of a slice, or the pattern of several.
    """
    names = slices_between(start, end)
    if names is None:
        return index_of("*")
    # Each name is a pattern, because a month without rows has no index.
    return ",".join(index_of(f"{name}*") for name in names)


def ends_before(name: str, moment: datetime) -> bool:
    """Return whether every row of this slice is older than `moment`."""
    return _order(name) < _order(slice_of(moment))


def _order(name: str) -> str:
    return {EARLY: "", LATE: "~"}.get(name, name)


def _down_from(moment: datetime) -> Iterator[str]:
    name = slice_of(moment)
    if name == LATE:
        yield LATE
        year, month = LAST_YEAR, 12
    elif name == EARLY:
        yield EARLY
        return
    else:
        year, month = moment.year, moment.month
    while year >= FIRST_YEAR:
        yield f"{year:04}-{month:02}"
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    yield EARLY
