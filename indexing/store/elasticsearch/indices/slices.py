"""Slices of time: which index of the events or executions a moment falls into. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

# A year outside of these is a mistake of somebody's clock. Such strays share one index on either
# side, so that nobody can have an index made for each month since the year 1.
FIRST_YEAR: Final = 2015
LAST_YEAR: Final = 2040
EARLY: Final = "early"
LATE: Final = "late"

# A request names at most so many slices; more of them are read through the alias.
_MOST_NAMED: Final = 24


def slice_of(moment: datetime) -> str:
    """The end of the name of the index that holds this moment: a month of UTC."""
    if moment.year < FIRST_YEAR:
        return EARLY
    if moment.year > LAST_YEAR:
        return LATE
    return f"{moment.year:04}-{moment.month:02}"


def slices_between(start: datetime, end: datetime) -> list[str] | None:
    """The slices that hold a range of time, newest first; `None` where they are too many to name.

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


def ends_before(name: str, moment: datetime) -> bool:
    """Whether all that a slice can hold is older than that."""
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
