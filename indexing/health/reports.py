"""Reports why a test is healthy, flaky or broken, from its roll-ups and the rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from indexing.health.explanation import explain
from indexing.health.rollups import Job, Rollup, cut_spread, find_newest, outcome_of
from indexing.health.rules import is_live
from indexing.health.sequences import KEPT_VERDICTS, SequenceState
from indexing.health.status import find_worst, judge_sequence
from indexing.health.window import day_number, start_of_window
from indexing.health.window_counts import count_window
from indexing.models.health_reports import HealthReport, JobHealth, ReportedVerdict
from indexing.models.tests import HEALTH_NUMBERS, HealthStatus
from indexing.timestamps import from_microseconds

# The most jobs that a report shows, the worst first, and the most characters of their names and
# commits. These come from uploads and may have 8,000 bytes each, and a response must not take long
# to encode and to send.
SHOWN_JOBS: Final = 200
SHOWN_TEXT_LENGTH: Final = 500_000


def report_health(rollups: Mapping[Job, Rollup], *, flaky_detection: bool) -> HealthReport:
    """Report the health of one test from its roll-ups on the default branch."""
    if not rollups:
        return HealthReport(HealthStatus.UNKNOWN, (), 0)
    newest = find_newest(rollups.values()).newest_at
    start = start_of_window(newest)
    live: list[tuple[HealthStatus, SequenceState]] = []
    jobs: list[JobHealth] = []
    for job, rollup in sorted(rollups.items()):
        counted = count_window(rollup, start)
        state = rollup.sequence_since(start)
        is_live_now = state is not None and is_live(rollup, newest)
        status = HealthStatus.UNKNOWN
        if state is not None and is_live_now:
            status = judge_sequence(state, flaky_detection=flaky_detection)
            live.append((status, state))
        found = explain(state, flaky_detection=flaky_detection, is_live=is_live_now)
        jobs.append(
            JobHealth(
                pipeline_name=job[0],
                job_name=job[1],
                health_status=status,
                is_live=is_live_now,
                rule=found.rule.value,
                explanation=found.sentence,
                executions_count=counted.executions,
                failed_executions_count=counted.failed,
                mean_duration=counted.mean_duration,
                last_execution_at=from_microseconds(rollup.newest_at),
                verdicts=_list_verdicts(rollup, start),
            )
        )
    jobs.sort(key=lambda job: HEALTH_NUMBERS[job.health_status], reverse=True)
    status, _ = find_worst(live)
    return HealthReport(status, _cut_jobs(jobs), len(jobs))


def _cut_jobs(jobs: Iterable[JobHealth]) -> tuple[JobHealth, ...]:
    """Return as many of the first jobs as the limits allow; at least one, if there is any."""
    shown: list[JobHealth] = []
    length = 0
    for job in jobs:
        length += len(job.pipeline_name) + len(job.job_name)
        length += sum(len(verdict.commit) for verdict in job.verdicts)
        if shown and (len(shown) == SHOWN_JOBS or length > SHOWN_TEXT_LENGTH):
            break
        shown.append(job)
    return tuple(shown)


def _list_verdicts(rollup: Rollup, start: int) -> tuple[ReportedVerdict, ...]:
    """Return the newest verdicts of the window that begins with the day `start`, oldest first."""
    found = [
        (verdict.first_at, verdict.commit, verdict.outcome, verdict.last_at)
        for verdict in rollup.verdicts
        if day_number(verdict.first_at) >= start
    ]
    # A verdict that began before the window counts with its executions inside it. Roll-ups that an
    # earlier release stored lack the last execution of a day, unless they keep the verdict.
    last_at = {
        spread.commit: max(part.first_at for part in spread.parts)
        for spread in rollup.spread
        if spread.parts
    }
    last_at |= {verdict.commit: verdict.last_at for verdict in rollup.verdicts}
    found += [
        (first_at, commit, outcome_of(results), last_at[commit])
        for first_at, commit, _, results in cut_spread(rollup.spread, start)
    ]
    found.sort(key=lambda each: each[:2])
    return tuple(
        ReportedVerdict(outcome.value, commit, from_microseconds(first), from_microseconds(last))
        for first, commit, outcome, last in found[-KEPT_VERDICTS:]
    )
