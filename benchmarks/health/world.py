"""Simulates tests in a job that runs often: regressions, outages, flakes. Pure, seeded.

The simulation replaces real histories: none at hand has 10 runs a day or more. A history is one
string for each day, with a letter for each commit: P, F, or X if it failed and then passed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

# Commits arrive evenly within this part of a day.
WORKING_HOURS: Final = 12
_DAYS_A_MONTH: Final = 30

# Pairs of a number of regressions a month and the share of tests with that number.
REGRESSIONS: Final = ((0.05, 0.80), (0.5, 0.15), (2.0, 0.05))
REGRESSION_HOURS: Final = 4.0
_REGRESSION_SPREAD: Final = 1.0

OUTAGES: Final = 0.3
# The following figures are fitted, because outages and retries were not measured: healthy tests are
# called flaky about as often as in the simulation in which the rules were chosen.
OUTAGE_HOURS: Final = 1.5
_OUTAGE_SPREAD: Final = 1.35
# The range of the probability with which a run fails in an outage; log-uniform.
_OUTAGE_RATES: Final = (0.01, 0.8)
# The probability that a retry is free of what made the run fail; it runs on the same machine.
RETRY_HELPS: Final = 0.66


@dataclass(frozen=True, slots=True)
class Job:
    """How often a job runs, and whether it retries failed tests."""

    runs_a_day: int
    retries: bool


@dataclass(frozen=True, slots=True)
class Flake:
    """A failure rate, and the days on which it applies: from `first` to before `last`."""

    rate: float
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of a history, in days, in which runs fail with probability `rate`."""

    start: float
    end: float
    rate: float


def draw_regressions(rng: random.Random) -> float:
    """Draw the number of regressions a month of a test."""
    rates, shares = zip(*REGRESSIONS, strict=True)
    found: float = rng.choices(rates, shares)[0]
    return found


def make_history(rng: random.Random, job: Job, days: int, flake: Flake | None = None) -> list[str]:
    """Simulate the history of a test: one string for each day."""
    regressions = list(
        _spans(rng, draw_regressions(rng), days, REGRESSION_HOURS, _REGRESSION_SPREAD)
    )
    outages = list(_spans(rng, OUTAGES, days, OUTAGE_HOURS, _OUTAGE_SPREAD, _OUTAGE_RATES))
    steady = "P" * job.runs_a_day
    history = []
    for day in range(days):
        broken = _on(regressions, day)
        disturbed = _on(outages, day)
        flaky = flake.rate if flake is not None and flake.first <= day < flake.last else 0.0
        if broken or disturbed or flaky:
            history.append(_make_day(rng, job, day, broken, disturbed, flaky))
        else:
            history.append(steady)
    return history


def _spans(
    rng: random.Random,
    a_month: float,
    days: int,
    hours: float,
    spread: float,
    rates: tuple[float, float] = (1.0, 1.0),
) -> Iterator[_Span]:
    """Draw spans that begin in working hours; their lengths are log-normal around a median."""
    low, high = (math.log(rate) for rate in rates)
    at = rng.expovariate(a_month / _DAYS_A_MONTH)
    while at < days:
        day, part = divmod(at, 1)
        start = day + part * WORKING_HOURS / 24
        length = hours / 24 * math.exp(rng.gauss(0, spread))
        yield _Span(start, start + length, math.exp(rng.uniform(low, high)))
        at += rng.expovariate(a_month / _DAYS_A_MONTH)


def _on(spans: Sequence[_Span], day: int) -> list[_Span]:
    return [span for span in spans if span.start < day + 1 and span.end > day]


def _make_day(
    rng: random.Random,
    job: Job,
    day: int,
    broken: Sequence[_Span],
    disturbed: Sequence[_Span],
    rate: float,
) -> str:
    letters = []
    phase = rng.random()
    for run in range(job.runs_a_day):
        at = day + WORKING_HOURS / 24 * (run + phase) / job.runs_a_day
        fails = rate
        for span in disturbed:
            if span.start <= at < span.end:
                fails = 1 - (1 - fails) * (1 - span.rate)
        if any(span.start <= at < span.end for span in broken):
            letters.append("F")
        elif rng.random() >= fails:
            letters.append("P")
        elif job.retries and rng.random() < RETRY_HELPS * (1 - fails):
            letters.append("X")
        else:
            letters.append("F")
    return "".join(letters)
