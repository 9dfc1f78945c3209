"""Counts days on which all executions passed: the most frequent ones, without any special case.

`merging.py` merges every other day. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from indexing.health.observations import Observation
from indexing.health.rollups import PASSED, DailyRollup, KeptVerdict
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus
from indexing.models.trends import MAX_TOTAL_DURATION, duration_of

_PASSED: Final = Conclusion.PASSED
_HEALTHY: Final = HealthStatus.HEALTHY.value
_key: Final = attrgetter("key")
# Makes a named tuple in half the time of a call of its class.
_new: Final = tuple.__new__


class CleanDay(NamedTuple):
    """A day whose verdicts all began on it and passed; `verdicts` are sorted by their keys."""

    rollup: DailyRollup
    verdicts: Sequence[KeptVerdict]


def count_clean_day(
    day: int, executions: Sequence[Observation], known: Collection[str]
) -> CleanDay | None:
    """Count a day without any roll-up yet; None if it is not clean.

    It is clean if all executions passed at the first attempt, outside infrastructure failures, and
    on commits that are not `known`. Its health is that of a sequence without any failure.
    """
    verdicts: dict[str, KeptVerdict] = {}
    durations = total = longest = 0
    last_at = executions[0].at
    for _, _, commit, conclusion, at, needed_retries, infrastructure, _, _, duration in executions:
        if conclusion is not _PASSED or needed_retries or infrastructure or commit in known:
            return None
        before = verdicts.get(commit)
        if before is None:
            verdicts[commit] = _new(KeptVerdict, (at, at, commit, PASSED, False))
        elif at < before.first_at:
            verdicts[commit] = before._replace(first_at=at)
        elif at > before.last_at:
            verdicts[commit] = before._replace(last_at=at)
        if at > last_at:
            last_at = at
        counted = duration_of(duration)
        if counted is not None:
            durations += 1
            total += counted
            if counted > longest:
                longest = counted
    passed = len(executions)
    total = min(total, MAX_TOTAL_DURATION)
    counts = (passed, 0, 0, passed, 0, len(verdicts), 0, 0, 0, durations, total, longest)
    rollup = _new(DailyRollup, (day, *counts, None, None, last_at, _HEALTHY))
    ordered = list(verdicts.values())
    if len(ordered) > 1:
        ordered.sort(key=_key)
    return _new(CleanDay, (rollup, ordered))
