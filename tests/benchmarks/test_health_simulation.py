"""The simulation of jobs that run often: a small part of it, with its seed."""

from __future__ import annotations

import random

import pytest

from benchmarks.health.figures import Figures, measure_rules
from benchmarks.health.judging import History, by_changes, by_days
from benchmarks.health.world import Flake, Job, make_history

OFTEN = Job(50, retries=False)
RETRIED = Job(20, retries=True)


@pytest.fixture(scope="module")
def often() -> dict[str, Figures]:
    rules = {"changes": by_changes, "days": by_days}
    return measure_rules(OFTEN, rules, healthy=150, flaky=8, seed=7)


def test_the_same_seed_makes_the_same_history() -> None:
    flake = Flake(0.05, 3, 20)
    first, again, other = (
        make_history(random.Random(seed), RETRIED, 40, flake) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert {len(day) for day in first} == {20}
    assert set("".join(first)) <= set("PFX")
    assert "X" in "".join(first[3:20])


def test_days_find_what_changes_do_not(often: dict[str, Figures]) -> None:
    days, changes = often["days"], often["changes"]
    for rate in (0.01, 0.02, 0.05, 0.2):
        assert days.flaky[rate].recall > 0.95
    assert changes.flaky[0.01].recall < 0.1
    assert changes.flaky[0.05].recall < 0.4
    seen, cleared = days.flaky[0.01].to_see, days.flaky[0.01].to_clear
    assert seen is not None
    assert cleared is not None
    assert 3 < seen < 12
    assert 7 < cleared < 15


def test_days_leave_healthy_tests_alone(often: dict[str, Figures]) -> None:
    days, changes = often["days"], often["changes"]
    assert days.healthy.ever < 0.04
    assert changes.healthy.ever > 0.1
    assert days.precision > 0.9


def test_a_history_is_judged_by_what_was_known_at_the_moment() -> None:
    good = "P" * 12
    lone = "PPPPPPPPPPPF"
    history = History([lone, good, lone, good, lone, good])
    # The last result of a day turns out to stand alone on the next morning.
    assert not history.is_flaky(by_days, (4, 11))
    assert history.is_flaky(by_days, (5, 0))
