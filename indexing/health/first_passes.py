"""Derives all data of a test whose only execution passed: of most new tests. Pure.

They are equal to what the modules for any number of executions derive, in half the time.
"""

from __future__ import annotations

from typing import NamedTuple

from indexing.health.clean_days import count_clean_day
from indexing.health.history import Change, History
from indexing.health.observations import Judgement, Observation
from indexing.health.rollups import Merged, Rollup
from indexing.health.window import day_number
from indexing.health.window_counts import mean_duration
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus, TestHealth, TestMetrics, metadata_values
from indexing.timestamps import from_microseconds


class FirstPass(NamedTuple):
    """What `merging`, `history` and `rules` derive from one execution."""

    merged: Merged
    history: History
    judgement: Judgement


def derive_first_pass(seen: Observation, *, flaky_detection: bool) -> FirstPass | None:
    """Return what follows from the only execution of a test.

    None if it did not pass at the first attempt, or if its run failed as a whole.
    """
    at, metadata = seen.at, seen.metadata
    number = day_number(at)
    clean = count_clean_day(number, (seen,), ())
    if clean is None:
        return None
    day, verdicts = clean
    rollup = Rollup(
        newest_at=at,
        last_conclusion=Conclusion.PASSED,
        evidence_at=at,
        days=(day,),
        verdicts=tuple(verdicts),
        has_older=False,
        spread=(),
        metadata=tuple(
            [None if value is None else (at, value) for value in metadata_values(metadata)]
        ),
    )
    job = seen.job
    changes = (Change(number, at, day.health),)
    moment = from_microseconds(at)
    health = TestHealth(
        health_status=HealthStatus.HEALTHY,
        last_conclusion=Conclusion.PASSED.value,
        success_ratio=1.0,
        last_success_at=moment,
    )
    metrics = TestMetrics(
        health_status=HealthStatus.HEALTHY,
        executions_count=1,
        mean_duration=mean_duration(day.total_duration, day.durations),
        last_execution_at=moment,
        latest_verdicts=(Conclusion.PASSED.value,),
    )
    return FirstPass(
        Merged(rollup, (day,), {verdict.commit: verdict for verdict in verdicts}),
        History({job: changes}, changes),
        Judgement(health, metadata, {job: metrics}, flaky_detection=flaky_detection),
    )
