"""The record of the last retention run, and the rules for when the next one begins. Pure: no clock.

A store has one record. A process begins a run by replacing the record, and shows that it is alive
by replacing it again. So other processes can distinguish a killed run from one in progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from enum import Enum
from typing import Any, Final

from indexing.timestamps import (
    from_microseconds,
    microseconds_or_none,
    moment_or_none,
    to_microseconds,
)

# How often a run shows that it is alive.
RENEWED_EVERY: Final = timedelta(minutes=1)
# A run that has not done so for this long was killed. The time is long, so that a run that is
# killed each time, for example for lack of memory, is not repeated all the time.
ABANDONED_AFTER: Final = timedelta(minutes=30)
# A record that is further ahead than this comes from a machine with a wrong clock.
RECORD_MAX_AHEAD: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class PruneRun:
    """One retention run. `alive_at` is `None` if it was stopped before its end.

    `events` and `executions` are the numbers of removed rows, once `ended_at` is set.
    """

    id: str
    began_at: datetime
    alive_at: datetime | None
    ended_at: datetime | None = None
    events: int = 0
    executions: int = 0

    def ended(self, moment: datetime, events: int, executions: int) -> PruneRun:
        """Return the record of this run after its end."""
        return replace(self, alive_at=moment, ended_at=moment, events=events, executions=executions)

    def renewed(self, moment: datetime) -> PruneRun:
        """Return the record of this run while it is in progress."""
        return replace(self, alive_at=moment)

    def stopped(self) -> PruneRun:
        """Return the record of a stopped run, so that another process may repeat it at once."""
        return self if self.ended_at else replace(self, alive_at=None)


class NextStep(Enum):
    """What a process should do about the daily run."""

    BEGIN = "begin"
    # Another process has begun the run, and may die before its end.
    WATCH = "watch"
    # Nothing until the next day.
    REST = "rest"


def find_due(at: time, now: datetime) -> datetime:
    """Return the newest moment with that time of day in UTC that is not after `now`."""
    today = now.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


def next_step(
    last: PruneRun | None, due: datetime, now: datetime, watching_since: datetime
) -> NextStep:
    """Decide about the run that was due at `due`, given the record of the last run.

    A missed run is made up for. Without a record, the first run begins at the first due time after
    `watching_since`, so that turning retention on removes nothing at once.
    """
    if last is not None and last.began_at > now + RECORD_MAX_AHEAD:
        last = None
    if last is None:
        return NextStep.BEGIN if due >= watching_since else NextStep.REST
    if last.ended_at is not None:
        return NextStep.REST if last.began_at >= due else NextStep.BEGIN
    is_alive = last.alive_at is not None and abs(now - last.alive_at) < ABANDONED_AFTER
    return NextStep.WATCH if is_alive else NextStep.BEGIN


def to_record(run: PruneRun) -> dict[str, Any]:
    """Return the run as JSON values, which both stores keep."""
    return {
        "id": run.id,
        "began_at": to_microseconds(run.began_at),
        "alive_at": microseconds_or_none(run.alive_at),
        "ended_at": microseconds_or_none(run.ended_at),
        "events": run.events,
        "executions": run.executions,
    }


def from_record(record: Mapping[str, Any]) -> PruneRun:
    """Parse a record from `to_record`."""
    return PruneRun(
        record["id"],
        from_microseconds(record["began_at"]),
        moment_or_none(record["alive_at"]),
        moment_or_none(record["ended_at"]),
        record["events"],
        record["executions"],
    )
