"""The window of the health rules: whole UTC days, so that daily roll-ups are exact. Pure.

Days are numbered from 1970-01-01. Numbers cannot overflow, unlike dates: a store of an earlier
release may contain results of the year 1.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from indexing.health.thresholds import LIVE_FOR, WINDOW
from indexing.timestamps import DAY_MICROSECONDS, EPOCH, MICROSECOND

# A day number before every day that a store can hold.
NEVER: Final = -(2**40)
# `LIVE_FOR`, for times in microseconds.
LIVE_MICROSECONDS: Final = LIVE_FOR // MICROSECOND


def day_of(moment: datetime) -> int:
    """Return the number of the UTC day of a moment."""
    return (moment - EPOCH).days


def end_of_day(day: int) -> datetime:
    """Return the last moment of a UTC day."""
    return EPOCH + timedelta(days=day + 1, microseconds=-1)


def day_number(microseconds: int) -> int:
    """Return the number of the UTC day of a time in microseconds since 1970."""
    return microseconds // DAY_MICROSECONDS


def start_of_window(newest_at: int) -> int:
    """Return the first day of the window of a test whose newest execution finished at that time."""
    return day_number(newest_at) - WINDOW.days + 1
