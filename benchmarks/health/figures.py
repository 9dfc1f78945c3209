"""The figures of a rule over many simulated tests: its recall and its false positives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import mean, median
from typing import Final

from benchmarks.health.judging import History, Rule
from benchmarks.health.world import Flake, Job, make_history, time_of_day
from indexing.health.thresholds import WINDOW

RATES: Final = (0.005, 0.01, 0.02, 0.05, 0.2)
DELAY_RATES: Final = (0.01, 0.05, 0.2)
FLAKY_SHARE: Final = 0.03

MEASURED_DAYS: Final = 91
# The first days of the phases of a flaky test. It is healthy, then flaky for one window before it
# is measured, and healthy again for two windows after the measured days.
_BEFORE: Final = WINDOW.days
_MEASURED: Final = 2 * WINDOW.days
_MENDED: Final = _MEASURED + MEASURED_DAYS
_END: Final = _MENDED + 2 * WINDOW.days


@dataclass(frozen=True, slots=True)
class Healthy:
    """The false positives: the share of days called flaky, and of tests ever called flaky."""

    false: float
    ever: float


@dataclass(frozen=True, slots=True)
class Flaky:
    """The recall over tests of one failure rate, by days, and the median delays in days.

    The delays are those until a test is called flaky, and until it no longer is. A delay is `None`
    if fewer than half of the tests have one.
    """

    recall: float
    to_see: float | None
    to_clear: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of one rule in one job; the keys of `flaky` are failure rates."""

    healthy: Healthy
    flaky: dict[float, Flaky]

    @property
    def precision(self) -> float:
        """The share of flaky tests among those called flaky, if all failure rates are as common."""
        found = mean(each.recall for each in self.flaky.values()) * FLAKY_SHARE
        return found / (found + self.healthy.false * (1 - FLAKY_SHARE)) if found else 0.0


def measure_rules(
    job: Job, rules: Mapping[str, Rule], *, healthy: int, flaky: int, seed: int
) -> dict[str, Figures]:
    """Return the figures of each rule, by its name, over the same tests."""
    rng = random.Random(f"{seed} {job}")
    steady = [History(make_history(rng, job, _BEFORE + MEASURED_DAYS)) for _ in range(healthy)]
    of_healthy = {name: _judge_healthy(steady, rule) for name, rule in rules.items()}
    of_flaky: dict[str, dict[float, Flaky]] = {name: {} for name in rules}
    for rate in RATES:
        flake = Flake(rate, _BEFORE, _MENDED)
        histories = [History(make_history(rng, job, _END, flake)) for _ in range(flaky)]
        for name, rule in rules.items():
            of_flaky[name][rate] = _judge_flaky(histories, rule, job)
    return {name: Figures(of_healthy[name], of_flaky[name]) for name in rules}


def _judge_healthy(tests: list[History], rule: Rule) -> Healthy:
    days = ever = 0
    end = _BEFORE + MEASURED_DAYS
    for test in tests:
        called = sum(test.is_flaky(rule, moment) for moment in test.ends_of_days(_BEFORE, end))
        days += called
        ever += called > 0 or any(
            test.is_flaky(rule, moment) for moment in test.troubles(_BEFORE, end)
        )
    return Healthy(days / len(tests) / MEASURED_DAYS, ever / len(tests))


def _judge_flaky(tests: list[History], rule: Rule, job: Job) -> Flaky:
    days = 0
    to_see: list[float] = []
    to_clear: list[float] = []
    for test in tests:
        days += sum(test.is_flaky(rule, moment) for moment in test.ends_of_days(_MEASURED, _MENDED))
        to_see += _first_seen(test, rule, job)
        if test.is_flaky(rule, (_MENDED - 1, job.runs_a_day - 1)):
            to_clear += _first_cleared(test, rule)
    recall = days / len(tests) / MEASURED_DAYS
    seen = len(to_see) * 2 > len(tests)
    return Flaky(
        recall,
        median(to_see) if seen else None,
        median(to_clear) if len(to_clear) * 2 > len(tests) else None,
    )


def _first_seen(test: History, rule: Rule, job: Job) -> Iterator[float]:
    for day, run in test.troubles(_BEFORE, _END):
        if test.is_flaky(rule, (day, run)):
            yield day - _BEFORE + time_of_day((run + 0.5) / job.runs_a_day)
            return


def _first_cleared(test: History, rule: Rule) -> Iterator[float]:
    for day, run in test.ends_of_days(_MENDED, _END):
        if not test.is_flaky(rule, (day, run)):
            yield day - _MENDED + 1
            return
