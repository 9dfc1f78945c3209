"""Decides the status of a sequence, and that of a test from its sequences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeVar

from indexing.health.dense import is_dense, measure
from indexing.health.rollups import Verdicts
from indexing.health.sequences import RecentVerdict, SequenceState
from indexing.health.thresholds import (
    ALONE_DAYS,
    BROKEN_FAILED_IN_SPAN,
    BROKEN_SPAN,
    BROKEN_STREAK,
    FLAKY_FALLS,
    FLAKY_SPAN,
    NEAR_DAYS,
)
from indexing.health.verdicts import Outcome
from indexing.models.tests import HealthStatus

T = TypeVar("T")

_PASSED: Final = Outcome.PASSED
_FAILED: Final = Outcome.FAILED
# With at most this many failures and results that stood alone, no rule makes a sequence flaky.
_TOLERATED: Final = min(FLAKY_FALLS, NEAR_DAYS, ALONE_DAYS) - 1
# The statuses of live sequences. They are never unknown.
WORST_FIRST: Final = (HealthStatus.BROKEN, HealthStatus.FLAKY, HealthStatus.HEALTHY)


def find_worst(judged: Iterable[tuple[HealthStatus, T]]) -> tuple[HealthStatus, T | None]:
    """Return the worst status among live sequences, and the first sequence that has it."""
    found: dict[HealthStatus, T] = {}
    for status, state in judged:
        found.setdefault(status, state)
    for status in WORST_FIRST:
        if status in found:
            return status, found[status]
    return HealthStatus.UNKNOWN, None


def judge_sequence(state: SequenceState, *, flaky_detection: bool) -> HealthStatus:
    """Return the status of one sequence; with `flaky_detection` off, it is never flaky."""
    if is_broken(state.newest):
        return HealthStatus.BROKEN
    if flaky_detection and _is_flaky(state):
        return HealthStatus.FLAKY
    return HealthStatus.HEALTHY


def is_surely_healthy(bad: Iterable[Verdicts], *, newest_failed: bool) -> bool:
    """Return whether too few verdicts are bad for any rule to apply, as on most days.

    `bad` are at least those days of the window with a verdict that failed, was flaky or stood
    alone.
    """
    failed = alone = 0
    for day in bad:
        if day.flaky_verdicts:
            return False
        failed += day.failed_verdicts
        alone += day.stood_alone
        if failed > _TOLERATED or alone > _TOLERATED:
            return False
    # A sequence whose newest verdict passed is not broken.
    return failed == alone == 0 or not newest_failed


def is_broken(newest: Sequence[RecentVerdict]) -> bool:
    """Return whether the newest verdicts of a sequence, at least one, make it broken."""
    if newest[-1].outcome is not _FAILED:
        return False
    failed = [verdict.outcome is _FAILED for verdict in newest[-BROKEN_SPAN:]]
    return all(failed[-BROKEN_STREAK:]) or sum(failed) >= BROKEN_FAILED_IN_SPAN


def count_falls(newest: Sequence[RecentVerdict]) -> int:
    """Return the number of falls, from pass to fail, among the newest `FLAKY_SPAN` verdicts."""
    outcomes = [verdict.outcome for verdict in newest[-FLAKY_SPAN:]]
    return sum(after is _FAILED and before is _PASSED for before, after in pairwise(outcomes))


def _is_flaky(state: SequenceState) -> bool:
    if is_dense(state):
        return measure(state).is_flaky
    # Falls are counted only if the window has no flaky verdict.
    return any(day.flaky for day in state.days) or count_falls(state.newest) >= FLAKY_FALLS
