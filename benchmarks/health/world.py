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

_DAYS_A_MONTH: Final = 30

# These figures are those of the world in which the rules were chosen: pairs of a number of
# regressions a month and the share of tests with that number, the median hours until a regression
# is mended, and the number of outages a month.
REGRESSIONS: Final = ((0.05, 0.80), (0.5, 0.15), (2.0, 0.05))
REGRESSION_HOURS: Final = 4.0
OUTAGES: Final = 0.3

# The rest of that world is not known. The following figures are fitted, not measured: both rules
# call tests flaky about as often, and as late, as they did there (`docs/measuring.md`).

# The spread of the log-normal time until a regression is mended: two in three take 1.5 to 11 hours.
_REGRESSION_SPREAD: Final = 1.0
OUTAGE_HOURS: Final = 1.3
_OUTAGE_SPREAD: Final = 1.35
# The range of the probability with which a run fails in an outage; uniform.
_OUTAGE_RATES: Final = (0.2, 1.0)
# The probability that a commit closely follows another one, as if both were merged together, and
# the longest time between the two.
_TOGETHER: Final = 0.7
_TOGETHER_HOURS: Final = 0.1
# The probability that a retry is free of what made the run fail; it runs on the same machine.
RETRY_HELPS: Final = 0.72


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
    rate: float = 1.0


def time_of_day(share: float) -> float:
    """Return the part of a day after which this share of its commits has arrived.

    None arrive at midnight and most at noon: 82 % of them between 6 and 18 o'clock.
    """
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if middle - math.sin(math.tau * middle) / math.tau < share:
            low = middle
        else:
            high = middle
    return low


def make_history(rng: random.Random, job: Job, days: int, flake: Flake | None = None) -> list[str]:
    """Simulate the history of a test: one string for each day."""
    regressions = _draw_regressions(rng, days)
    outages = _draw_outages(rng, days)
    steady = "P" * job.runs_a_day
    history = []
    for day in range(days):
        broken = _on(regressions, day)
        disturbed = _on(outages, day)
        flaky = flake.rate if flake is not None and flake.first <= day < flake.last else 0.0
        if broken or disturbed:
            history.append(_make_day(rng, job, day, broken, disturbed, flaky))
        elif flaky:
            history.append("".join(_run(rng, job, flaky) for _ in range(job.runs_a_day)))
        else:
            history.append(steady)
    return history


def _draw_regressions(rng: random.Random, days: int) -> list[_Span]:
    """Draw regressions. Each arrives with a commit, so at the times of day of commits."""
    rates, shares = zip(*REGRESSIONS, strict=True)
    found = []
    for moment in _draw_moments(rng, rng.choices(rates, shares)[0], days):
        start = math.floor(moment) + _draw_time_of_day(rng)
        found.append(_Span(start, start + _draw_days(rng, REGRESSION_HOURS, _REGRESSION_SPREAD)))
    return found


def _draw_outages(rng: random.Random, days: int) -> list[_Span]:
    """Draw partial outages. They begin at any time of day."""
    return [
        _Span(
            moment,
            moment + _draw_days(rng, OUTAGE_HOURS, _OUTAGE_SPREAD),
            rng.uniform(*_OUTAGE_RATES),
        )
        for moment in _draw_moments(rng, OUTAGES, days)
    ]


def _draw_moments(rng: random.Random, a_month: float, days: int) -> Iterator[float]:
    at = rng.expovariate(a_month / _DAYS_A_MONTH)
    while at < days:
        yield at
        at += rng.expovariate(a_month / _DAYS_A_MONTH)


def _draw_days(rng: random.Random, hours: float, spread: float) -> float:
    """Draw a time in days, log-normal around a median of `hours`."""
    return hours / 24 * math.exp(rng.gauss(0, spread))


def _draw_time_of_day(rng: random.Random) -> float:
    """Draw the time of a commit as a part of its day, distributed as `time_of_day` says."""
    while True:
        time = rng.random()
        if rng.random() * 2 < 1 - math.cos(math.tau * time):
            return time


def _draw_commits(rng: random.Random, runs: int, day: int, alone: Sequence[float]) -> list[float]:
    """Draw the moments of a day's commits, sorted, besides those that come `alone`."""
    moments: list[float] = []
    while len(moments) + len(alone) < runs:
        if moments and rng.random() < _TOGETHER:
            moments.append(moments[-1] + rng.random() * _TOGETHER_HOURS / 24)
        else:
            moments.append(day + _draw_time_of_day(rng))
    return sorted((*moments, *alone[:runs]))


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
    """Simulate a day with regressions or outages, on which runs also fail at this rate."""
    letters = []
    regressing = [span.start for span in broken if span.start >= day]
    for at in _draw_commits(rng, job.runs_a_day, day, regressing):
        if any(span.start <= at < span.end for span in broken):
            letters.append("F")
            continue
        fails = rate
        for span in disturbed:
            if span.start <= at < span.end:
                fails = 1 - (1 - fails) * (1 - span.rate)
        letters.append(_run(rng, job, fails))
    return "".join(letters)


def _run(rng: random.Random, job: Job, fails: float) -> str:
    """Simulate the runs of one commit, each of which fails with probability `fails`."""
    if rng.random() >= fails:
        return "P"
    if job.retries and rng.random() < RETRY_HELPS * (1 - fails):
        return "X"
    return "F"
