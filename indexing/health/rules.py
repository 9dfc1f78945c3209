"""The health rules: judge one test by the roll-ups of its executions. Pure.

The order in which executions arrived does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.health.merging import build_rollup
from indexing.health.observations import Judgement, Observation
from indexing.health.rollups import Job, Rollup, find_newest
from indexing.health.status import find_worst, judge_sequence
from indexing.health.thresholds import (
    INFRASTRUCTURE_FAILED_PERCENT,
    INFRASTRUCTURE_MIN_RESULTS,
    WINDOW,
)
from indexing.health.window import LIVE_MICROSECONDS, day_number, start_of_window
from indexing.health.window_counts import WindowCounts, count_window, ratio_of
from indexing.models.executions import Conclusion, PullRequest
from indexing.models.tests import (
    HealthStatus,
    TestHealth,
    TestMetadata,
    TestMetrics,
)
from indexing.timestamps import from_microseconds, microseconds_or_none, moment_or_none

_PASSED: Final = Conclusion.PASSED
_FAILED: Final = Conclusion.FAILED
_UNKNOWN: Final = HealthStatus.UNKNOWN.value


def build_rollups(observations: Iterable[Observation]) -> dict[Job, Rollup]:
    """Return the roll-up of each (pipeline, job) of one test."""
    jobs = group_by_job(observations)
    built = {job: build_rollup(executions).rollup for job, executions in jobs.items()}
    return {job: rollup for job, rollup in built.items() if rollup is not None}


def group_by_job(observations: Iterable[Observation]) -> dict[Job, list[Observation]]:
    """Return the executions of each (pipeline, job) of one test, in the given order."""
    jobs: dict[Job, list[Observation]] = {}
    for seen in observations:
        jobs.setdefault(seen.job, []).append(seen)
    return jobs


def judge_rollups(
    rollups: Mapping[Job, Rollup],
    fresh: Iterable[Observation],
    *,
    flaky_detection: bool,
    before: TestHealth | None = None,
) -> Judgement:
    """Derive all displayed data of one test from its roll-ups on the default branch.

    First and last failure and success come from the executions in `fresh`, and from the earlier
    judgement `before`, because retention may have removed their executions. With `flaky_detection`
    off, a flaky test counts as healthy. The window ends with the day of the newest execution, so
    the rules need no clock.
    """
    first_failure, last_failure, last_success = _find_bounds(fresh, before or TestHealth())
    rows: dict[Job, TestMetrics] = {}
    status = HealthStatus.UNKNOWN
    worst: tuple[Rollup, int] | None = None
    last_conclusion = "unknown"
    metadata = TestMetadata()
    passed = failed = flaky = verdicts = 0
    if rollups:
        newest = find_newest(rollups.values())
        start = start_of_window(newest.newest_at)
        live: list[tuple[HealthStatus, Rollup]] = []
        for job, rollup in sorted(rollups.items()):
            counted = count_window(rollup, start)
            passed += counted.passed_evidence
            failed += counted.failed_evidence
            verdicts += counted.verdicts
            flaky += counted.flaky_verdicts
            status_of_job = HealthStatus.UNKNOWN
            # A job counts as live even if it runs the same commit every night.
            if counted.latest and is_live(rollup, newest.newest_at):
                status_of_job = _judge_job(rollup, start, counted, flaky_detection=flaky_detection)
                live.append((status_of_job, rollup))
            rows[job] = counted.measure(status_of_job)
        status, decisive = find_worst(live)
        if decisive is not None and status in (HealthStatus.FLAKY, HealthStatus.BROKEN):
            worst = (decisive, start)
        last_conclusion = newest.last_conclusion.value
        metadata = _newest_metadata(rollups.values(), start)
    health = TestHealth(
        health_status=status,
        last_conclusion=last_conclusion,
        failure_ratio=ratio_of(failed, passed + failed),
        flakiness_ratio=ratio_of(flaky, verdicts),
        success_ratio=ratio_of(passed, passed + failed),
        first_failure_at=first_failure.at if first_failure else None,
        first_failure_commit=first_failure.commit if first_failure else None,
        first_failure_pull=first_failure.pull if first_failure else None,
        last_failure_at=last_failure,
        last_success_at=last_success,
    )
    return Judgement(health, metadata, rows, worst, flaky_detection)


def is_infrastructure_failure(passed: int, failed: int) -> bool:
    """Return whether a run with this many passed and failed tests failed as a whole."""
    results = passed + failed
    return (
        results >= INFRASTRUCTURE_MIN_RESULTS
        and failed * 100 > results * INFRASTRUCTURE_FAILED_PERCENT
    )


@dataclass(frozen=True, slots=True)
class _Failure:
    at: datetime
    commit: str
    pull: PullRequest | None

    def order(self) -> tuple[object, ...]:
        """The sort key: oldest first; among equally old ones, a known pull request first."""
        pull = self.pull
        if pull is None:
            return (self.at, self.commit, 1)
        facts = (pull.id, pull.number, pull.title, pull.user_id, pull.user_login)
        return (self.at, self.commit, 0, *facts)


def _find_bounds(
    observations: Iterable[Observation], stored: TestHealth
) -> tuple[_Failure | None, datetime | None, datetime | None]:
    """Return the first failure, and the times of the last failure and the last success."""
    failures: list[_Failure] = []
    last_failure = microseconds_or_none(stored.last_failure_at)
    last_success = microseconds_or_none(stored.last_success_at)
    for seen in observations:
        at = seen.at
        if seen.conclusion is _FAILED:
            if last_failure is None or at > last_failure:
                last_failure = at
            failures.append(_Failure(from_microseconds(at), seen.commit, seen.pull))
        elif seen.conclusion is _PASSED and (last_success is None or at > last_success):
            last_success = at
    if stored.first_failure_at is not None:
        commit = stored.first_failure_commit or ""
        failures.append(_Failure(stored.first_failure_at, commit, stored.first_failure_pull))
    return (
        min(failures, key=_Failure.order, default=None),
        moment_or_none(last_failure),
        moment_or_none(last_success),
    )


def is_live(rollup: Rollup, newest: int) -> bool:
    """Return whether a sequence counts for a test whose newest execution finished at `newest`."""
    return rollup.evidence_at is not None and newest - rollup.evidence_at <= LIVE_MICROSECONDS


def _judge_job(
    rollup: Rollup, start: int, counted: WindowCounts, *, flaky_detection: bool
) -> HealthStatus:
    """Return the status of a live sequence in the window that begins with the day `start`."""
    if counted.is_clean:
        return HealthStatus.HEALTHY
    newest = rollup.days[-1]
    if flaky_detection and newest.day == start + WINDOW.days - 1 and newest.health != _UNKNOWN:
        # It was judged in this window when it was merged.
        return HealthStatus(newest.health)
    sequence = rollup.sequence_since(start)
    if sequence is None:
        return HealthStatus.HEALTHY
    return judge_sequence(sequence, flaky_detection=flaky_detection)


def _newest_metadata(rollups: Iterable[Rollup], start: int) -> TestMetadata:
    """Return each field from the newest execution of the window that states it."""
    values: list[str | None] = []
    for stated in zip(*[rollup.metadata for rollup in rollups], strict=True):
        newest = max(filter(None, stated), default=None)
        values.append(newest[1] if newest and day_number(newest[0]) >= start else None)
    return TestMetadata(*values)
