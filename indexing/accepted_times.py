"""Defines the accepted dates of events and executions. Pure: the caller passes `now`.

One wrong clock must not hide a test's real results. Health uses the window that ends with a test's
newest execution, so an execution dated in the far future would exclude every real one; one dated
1970 would stay the first failure for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from indexing.errors import InvalidValueError
from indexing.timestamps import format_timestamp

# A machine that lost its clock starts at 1970 or 1980. Nothing that runs CI today predates 2000.
EARLIEST_ACCEPTED: Final = datetime(2000, 1, 1, tzinfo=UTC)

# A local time read as UTC is at most 14 hours ahead. A day covers that and some drift.
MAX_AHEAD: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class AcceptedTimes:
    """The accepted time range; both ends are included."""

    earliest: datetime
    latest: datetime

    def covers(self, moment: datetime) -> bool:
        return self.earliest <= moment <= self.latest


def accepted_times(now: datetime) -> AcceptedTimes:
    """Return the range that is accepted at `now`."""
    return AcceptedTimes(EARLIEST_ACCEPTED, now + MAX_AHEAD)


def check_accepted(moment: datetime, now: datetime) -> datetime:
    """Return the moment if it is accepted.

    Raises:
        InvalidValueError: the moment is too early or too late; the message says which.
    """
    if moment < EARLIEST_ACCEPTED:
        raise InvalidValueError(f"is before {format_timestamp(EARLIEST_ACCEPTED)}")
    if moment > now + MAX_AHEAD:
        ahead = format_timestamp(now.replace(microsecond=0))
        raise InvalidValueError(f"is more than a day ahead of this machine's clock ({ahead})")
    return moment
