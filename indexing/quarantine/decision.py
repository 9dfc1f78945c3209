"""Decides whether a test belongs in automatic quarantine, and why. Pure: no clock."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.health.observations import Judgement
from indexing.health.rollups import Rollup, find_newest
from indexing.health.thresholds import WINDOW
from indexing.health.window import start_of_window
from indexing.models.tests import HealthStatus, TestHealth
from indexing.timestamps import format_timestamp, from_microseconds, moment_or_none

_UNTRUSTED: Final = frozenset({HealthStatus.FLAKY, HealthStatus.BROKEN})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The finish times of the oldest and the newest result that count against a test."""

    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class JudgedState:
    """The state of a test on the default branch, by all of its results or by the older ones.

    `explanation` says why it is flaky or broken. `newest_at` is when the newest execution finished.
    """

    health: TestHealth
    evidence: Evidence | None
    explanation: str = ""
    newest_at: datetime | None = None

    @classmethod
    def of(cls, judgement: Judgement, rollups: Collection[Rollup]) -> JudgedState:
        """Return the state by these roll-ups, from their judgement."""
        newest = max((rollup.newest_at for rollup in rollups), default=None)
        return cls(
            judgement.health, find_evidence(rollups), judgement.explanation, moment_or_none(newest)
        )

    @property
    def is_untrusted(self) -> bool:
        """Whether the test is flaky or broken."""
        return self.health.health_status in _UNTRUSTED


def find_evidence(rollups: Collection[Rollup]) -> Evidence | None:
    """Return the bounds of the window's failures and of its passes that needed retries.

    A run that failed as a whole says nothing about its tests.
    """
    if not rollups:
        return None
    start = start_of_window(find_newest(rollups).newest_at)
    days = [day for rollup in rollups for day in rollup.days if day.day >= start]
    first = min((d.first_evidence for d in days if d.first_evidence is not None), default=None)
    last = max((d.last_evidence for d in days if d.last_evidence is not None), default=None)
    if first is None or last is None:
        return None
    return Evidence(from_microseconds(first), from_microseconds(last))


def explain_quarantine(
    state: JudgedState, *, ignore_broken: bool, answered_until: datetime | None
) -> str | None:
    """Return the reason for an automatic quarantine, or `None` if the test belongs in none.

    `answered_until` is the newest evidence that a person has already judged, by ending a quarantine
    of this test: only newer evidence can start another one.
    """
    health, evidence = state.health, state.evidence
    status = health.health_status
    if not state.is_untrusted or (status is HealthStatus.BROKEN and ignore_broken):
        return None
    if evidence is None or (answered_until is not None and evidence.last_at <= answered_until):
        return None
    return (
        f"{status} on the default branch, failed or retried since"
        f" {format_timestamp(evidence.first_at)}; in {WINDOW.days} days"
        f" {health.failure_ratio:.1%} of its results failed and"
        f" {health.flakiness_ratio:.1%} of its verdicts were flaky. {state.explanation}"
    )
