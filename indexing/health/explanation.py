"""Explains which rule decided the status of a sequence, with its numbers. Pure.

`docs/health.md` lists the rules by these names. No sentence contains text from a report, so the
length of each is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final

from indexing.health.dense import count_days_to_clear, is_dense, measure
from indexing.health.sequences import DayOfSequence, SequenceState
from indexing.health.status import count_falls, is_broken, judge_sequence
from indexing.health.thresholds import (
    ALONE_DAYS,
    BROKEN_SPAN,
    BROKEN_STREAK,
    DENSE_VERDICTS_A_DAY,
    FLAKY_FALLS,
    FLAKY_SPAN,
    LIVE_FOR,
    WINDOW,
)
from indexing.health.verdicts import Outcome
from indexing.models.tests import HealthStatus
from indexing.timestamps import EPOCH

# English names, whatever the locale of the process.
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = f"the last {WINDOW.days} days"
_PERCENT_OF_THREE: Final = 300


class Rule(Enum):
    """The names of the rules, as in `docs/health.md`."""

    FAILING_NOW = "failing_now"
    FAILING_MOSTLY = "failing_mostly"
    FLAKY_VERDICT = "flaky_verdict"
    REPEATED_FALLS = "repeated_falls"
    LONE_RESULTS = "lone_results"
    STEADY = "steady"
    DETECTION_OFF = "detection_off"
    NOT_LIVE = "not_live"
    NO_EVIDENCE = "no_evidence"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule that decided, and a sentence with its numbers."""

    rule: Rule
    sentence: str


def explain(
    state: SequenceState | None, *, flaky_detection: bool, is_live: bool = True
) -> Explanation:
    """Explain the status of a sequence; `state` is `None` if it has no verdict in the window."""
    if state is None:
        return Explanation(Rule.NO_EVIDENCE, f"Unknown: no passed or failed result in {_DAYS}.")
    if not is_live:
        return Explanation(
            Rule.NOT_LIVE,
            f"Not judged: its newest verdict is more than {LIVE_FOR.days} days older than the"
            " test's newest execution.",
        )
    status = judge_sequence(state, flaky_detection=True)
    if status is HealthStatus.BROKEN:
        return _explain_broken(state)
    if status is HealthStatus.HEALTHY:
        return Explanation(Rule.STEADY, _praise(state))
    if not flaky_detection:
        return Explanation(
            Rule.DETECTION_OFF,
            "Healthy: its results are those of a flaky test, but flaky detection is off.",
        )
    return _explain_days(state) if is_dense(state) else _explain_flaky(state)


def _explain_broken(state: SequenceState) -> Explanation:
    newest = state.newest[-BROKEN_STREAK:]
    if is_broken(newest):
        if len(newest) == BROKEN_STREAK:
            found = f"its newest {BROKEN_STREAK} verdicts failed"
        else:
            found = f"{_count(len(newest), 'verdict')} in {_DAYS}, and none passed"
        return Explanation(Rule.FAILING_NOW, f"Broken: {found}.")
    span = state.newest[-BROKEN_SPAN:]
    failed = sum(seen.outcome is Outcome.FAILED for seen in span)
    return Explanation(
        Rule.FAILING_MOSTLY,
        f"Broken: its newest verdict failed, and so did {failed} of the newest {len(span)}.",
    )


def _explain_flaky(state: SequenceState) -> Explanation:
    flaky = sum(day.flaky for day in state.days)
    if flaky:
        commits = _count(_verdicts(state), "commit")
        return Explanation(
            Rule.FLAKY_VERDICT,
            f"Flaky: on {flaky} of {commits} in {_DAYS} it both failed and passed.",
        )
    return Explanation(
        Rule.REPEATED_FALLS,
        f"Flaky: {_falls(state)}: it passed on one commit and failed on the next.",
    )


def _explain_days(state: SequenceState) -> Explanation:
    found = measure(state)
    clear = _count(count_days_to_clear(state), "day")
    return Explanation(
        Rule.LONE_RESULTS,
        f"Flaky: on {len(found.alone)} of {_DAYS}, the last on {_date(found.alone[-1])}, its result"
        " stood alone: it failed between two passes, passed between two failures, or did both on"
        f" one commit. {clear} without a failure will clear it.",
    )


def _praise(state: SequenceState) -> str:
    passes = _passes_in_a_row(state)
    if not is_dense(state):
        passed = sum(day.passed for day in state.days)
        return (
            f"Healthy: {passed} of {_count(_verdicts(state), 'verdict')} in {_DAYS} passed, with"
            f" {_falls(state)}; {FLAKY_FALLS} would make it flaky."
        )
    if passes < DENSE_VERDICTS_A_DAY:
        found = measure(state)
        alone = f"its result stood alone on {len(found.alone)} of {_DAYS}"
        if found.recurs:
            # Mended on days with few verdicts.
            return (
                f"Healthy: {alone}, but {_count(found.quiet, 'day')} without a failure cleared it."
            )
        return f"Healthy: it failed lately, but {alone}; {ALONE_DAYS} would make it flaky."
    rate = f"{_PERCENT_OF_THREE / passes:.2g} %"
    return f"{passes} passes in a row: a failure rate under {rate} cannot be seen yet."


def _passes_in_a_row(state: SequenceState) -> int:
    """Return how many of the newest verdicts passed, as a lower bound.

    The order of verdicts within an older day is unknown.
    """
    newest = 0
    for seen in reversed(state.newest):
        if seen.outcome is not Outcome.PASSED:
            return newest
        newest += 1
    days = 0
    for day in reversed(state.days):
        if _failed(day):
            break
        days += day.passed
    return max(newest, days)


def _failed(day: DayOfSequence) -> bool:
    return day.failed + day.flaky > 0


def _verdicts(state: SequenceState) -> int:
    return sum(day.verdicts for day in state.days)


def _falls(state: SequenceState) -> str:
    newest = min(FLAKY_SPAN, len(state.newest))
    falls = _count(count_falls(state.newest), "fall")
    return f"{falls} in the newest {_count(newest, 'verdict')}"


def _date(day: int) -> str:
    moment = EPOCH + timedelta(days=day)
    return f"{moment.day} {_MONTHS[moment.month - 1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
