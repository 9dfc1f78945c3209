"""Decides whether a test belongs in automatic quarantine, and why. Pure: no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.health.observations import Judgement, Observation
from indexing.health.thresholds import WINDOW
from indexing.health.window import day_of, first_day
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus, TestHealth
from indexing.timestamps import format_timestamp

_UNTRUSTED: Final = frozenset({HealthStatus.FLAKY, HealthStatus.BROKEN})


@dataclass(frozen=True, slots=True)
class Evidence:
    """When the oldest and the newest result that count against a test finished."""

    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a test on the default branch, by all of its results or by the older ones.

    `explanation` says why it is flaky or broken. `newest_at` is when the newest execution finished.
    """

    health: TestHealth
    evidence: Evidence | None
    explanation: str = ""
    newest_at: datetime | None = None

    @classmethod
    def of(cls, judgement: Judgement, observations: Sequence[Observation]) -> Standing:
        """Return the standing by these executions, from their judgement."""
        newest = max((seen.finished_at for seen in observations), default=None)
        evidence = find_evidence(observations)
        return cls(judgement.health, evidence, judgement.explanation, newest)

    @property
    def is_untrusted(self) -> bool:
        """Whether the test is flaky or broken."""
        return self.health.health_status in _UNTRUSTED


def find_evidence(observations: Iterable[Observation]) -> Evidence | None:
    """Return the bounds of the window's failures and of its passes that needed retries.

    A run that failed as a whole says nothing about its tests.
    """
    observations = list(observations)
    start = max((first_day(seen.finished_at) for seen in observations), default=0)
    moments = [
        seen.finished_at
        for seen in observations
        if day_of(seen.finished_at) >= start
        and not seen.infrastructure_failure
        and (
            seen.conclusion is Conclusion.FAILED
            or (seen.conclusion is Conclusion.PASSED and seen.needed_retries)
        )
    ]
    return Evidence(min(moments), max(moments)) if moments else None


def explain_quarantine(
    standing: Standing, *, ignore_broken: bool, answered_until: datetime | None
) -> str | None:
    """Return the reason for an automatic quarantine, or `None` if the test belongs in none.

    `answered_until` is the newest evidence that a person has already judged, by ending a quarantine
    of this test: only newer evidence can start another one.
    """
    health, evidence = standing.health, standing.evidence
    status = health.health_status
    if not standing.is_untrusted or (status is HealthStatus.BROKEN and ignore_broken):
        return None
    if evidence is None or (answered_until is not None and evidence.last_at <= answered_until):
        return None
    return (
        f"{status} on the default branch, failed or retried since"
        f" {format_timestamp(evidence.first_at)}; in {WINDOW.days} days"
        f" {health.failure_ratio:.1%} of its results failed and"
        f" {health.flakiness_ratio:.1%} of its verdicts were flaky. {standing.explanation}"
    )
