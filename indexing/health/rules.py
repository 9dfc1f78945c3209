"""The health rules: a pure function of one test's executions, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Final

from indexing.health.explanation import explain
from indexing.health.observations import Judgement, Observation
from indexing.health.preceding import Sequences, find_before
from indexing.health.sequences import summarise
from indexing.health.status import find_worst
from indexing.health.thresholds import (
    INFRASTRUCTURE_FAILED_PERCENT,
    INFRASTRUCTURE_MIN_RESULTS,
    LIVE_FOR,
    RECOVERY_VERDICTS,
)
from indexing.health.verdicts import Outcome, gather_sequences
from indexing.health.window import day_of, first_day
from indexing.models.executions import Conclusion, PullRequest
from indexing.models.tests import METADATA_FIELDS, HealthStatus, TestHealth, TestMetadata

# The tie-break between two executions that finished at the same moment: all results of one report
# may share its start. The one that needs attention counts as the newer one.
_ATTENTION: Final = {Conclusion.SKIPPED: 0, Conclusion.PASSED: 1, Conclusion.FAILED: 2}


def judge(
    observations: Sequence[Observation],
    *,
    flaky_detection: bool,
    before: TestHealth | None = None,
) -> Judgement:
    """Derive all displayed data of one test from its executions on the default branch.

    `before` is the earlier judgement: its first and last failure and success stay if retention has
    pruned the executions behind them. With `flaky_detection` off, a flaky test counts as healthy.
    The window ends with the day of the newest execution, so the rules need no clock.
    """
    stored = before or TestHealth()
    first_failure, last_failure, last_success = _find_bounds(observations, stored)
    counts = dict.fromkeys(((o.pipeline_name, o.job_name) for o in observations), 0)
    status, explanation = HealthStatus.UNKNOWN, ""
    last_conclusion = "unknown"
    passed = failed = flaky = verdicts = 0
    window: list[Observation] = []
    if observations:
        newest = max(observations, key=lambda o: (o.finished_at, _ATTENTION[o.conclusion]))
        last_conclusion = newest.conclusion.value
        start = first_day(newest.finished_at)
        window = [o for o in observations if day_of(o.finished_at) >= start]
        for seen in window:
            counts[seen.pipeline_name, seen.job_name] += 1
        evidence = [o for o in window if not o.infrastructure_failure]
        passed = sum(o.conclusion is Conclusion.PASSED for o in evidence)
        failed = sum(o.conclusion is Conclusion.FAILED for o in evidence)
        sequences = gather_sequences(evidence)
        verdicts = sum(map(len, sequences.values()))
        flaky = sum(v.outcome is Outcome.FLAKY for s in sequences.values() for v in s)
        older = [o for o in observations if day_of(o.finished_at) < start]
        before_window = find_before(older, sequences)
        states = (
            summarise(verdicts, before_window.get(job))
            for job, verdicts in sorted(_live(sequences, newest.finished_at).items())
        )
        status, worst = find_worst(states, flaky_detection=flaky_detection)
        if status in (HealthStatus.FLAKY, HealthStatus.BROKEN):
            explanation = explain(worst, flaky_detection=flaky_detection).sentence
    health = TestHealth(
        health_status=status,
        last_conclusion=last_conclusion,
        failure_ratio=_ratio(failed, passed + failed),
        flakiness_ratio=_ratio(flaky, verdicts),
        success_ratio=_ratio(passed, passed + failed),
        first_failure_at=first_failure.at if first_failure else None,
        first_failure_commit=first_failure.commit if first_failure else None,
        first_failure_pull=first_failure.pull if first_failure else None,
        last_failure_at=last_failure,
        last_success_at=last_success,
    )
    return Judgement(health, _newest_metadata(window), counts, explanation)


def is_infrastructure_failure(passed: int, failed: int) -> bool:
    """Return whether a run with these numbers of passed and failed tests failed as a whole."""
    results = passed + failed
    return (
        results >= INFRASTRUCTURE_MIN_RESULTS
        and failed * 100 > results * INFRASTRUCTURE_FAILED_PERCENT
    )


def is_recovered(observations: Sequence[Observation]) -> bool:
    """Return whether a quarantined test has been healthy since its quarantine began.

    `observations` are the executions since then, on the branches that the quarantine covers.
    """
    sequences = gather_sequences(o for o in observations if not o.infrastructure_failure)
    outcomes = [verdict.outcome for verdicts in sequences.values() for verdict in verdicts]
    return len(outcomes) >= RECOVERY_VERDICTS and all(o is Outcome.PASSED for o in outcomes)


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
    failed_at: list[datetime] = []
    passed_at: list[datetime] = []
    for seen in observations:
        if seen.conclusion is Conclusion.FAILED:
            failed_at.append(seen.finished_at)
            failures.append(_Failure(seen.finished_at, seen.commit, seen.pull))
        elif seen.conclusion is Conclusion.PASSED:
            passed_at.append(seen.finished_at)
    if stored.first_failure_at is not None:
        commit = stored.first_failure_commit or ""
        failures.append(_Failure(stored.first_failure_at, commit, stored.first_failure_pull))
    if stored.last_failure_at is not None:
        failed_at.append(stored.last_failure_at)
    if stored.last_success_at is not None:
        passed_at.append(stored.last_success_at)
    return (
        min(failures, key=_Failure.order, default=None),
        max(failed_at, default=None),
        max(passed_at, default=None),
    )


def _live(sequences: Sequences, newest: datetime) -> Sequences:
    """Return the sequences that are live, by the moment of the test's newest execution."""
    return {
        job: verdicts
        for job, verdicts in sequences.items()
        # A job that runs an unchanged commit every night is still live.
        if newest - max(verdict.last_at for verdict in verdicts) <= LIVE_FOR
    }


def _newest_metadata(observations: Iterable[Observation]) -> TestMetadata:
    """Take each field from the newest execution that states it, in any order of input."""
    newest: dict[str, tuple[datetime, str]] = {}
    get_fields = attrgetter(*METADATA_FIELDS)
    for seen in observations:
        for field, value in zip(METADATA_FIELDS, get_fields(seen.metadata), strict=True):
            if value is not None and (
                field not in newest or (seen.finished_at, value) > newest[field]
            ):
                newest[field] = (seen.finished_at, value)
    return TestMetadata(**{field: value for field, (_, value) in newest.items()})


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
