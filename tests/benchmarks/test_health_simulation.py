"""The simulation of jobs that run often: a small part of it, with its seed."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

import pytest

from benchmarks.health.figures import Figures, measure_rules
from benchmarks.health.judging import History, by_changes, by_days
from benchmarks.health.world import Flake, Job, make_history, time_of_day

OFTEN = Job(50, retries=False)
RETRIED = Job(20, retries=True)
RULES: Final = {"changes": by_changes, "days": by_days}


class Row(NamedTuple):
    """Percentages: recall by rate of failures, *ever*, and precision, as in `docs/measuring.md`."""

    recall: tuple[int, ...]
    ever: float
    precision: int


# Figures of the simulation in which the rules were chosen: by changes, by days.
CHOSEN_BY: Final = {
    OFTEN: (Row((0, 1, 5, 23, 88), 20, 90), Row((97, 100, 100, 100, 99), 1.0, 97)),
    RETRIED: (Row((88, 98, 100, 100, 100), 23, 37), Row((55, 94, 99, 100, 100), 1.5, 94)),
}


@pytest.fixture(scope="module")
def often() -> dict[str, Figures]:
    return measure_rules(OFTEN, RULES, healthy=150, flaky=8, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("job", CHOSEN_BY, ids=str)
def test_the_figures_are_those_by_which_the_rules_were_chosen(job: Job) -> None:
    found = measure_rules(job, RULES, healthy=4_000, flaky=100, seed=2)
    for figures, chosen in zip(found.values(), CHOSEN_BY[job], strict=True):
        recall = [100 * each.recall for each in figures.flaky.values()]
        assert recall == pytest.approx(chosen.recall, abs=3)
        assert 100 * figures.healthy.ever == pytest.approx(chosen.ever, abs=1.5)
        assert 100 * figures.precision == pytest.approx(chosen.precision, abs=4)


@pytest.mark.slow
def test_as_many_healthy_tests_are_called_flaky_in_a_job_of_20_runs() -> None:
    found = measure_rules(Job(20, retries=False), RULES, healthy=4_000, flaky=1, seed=2)
    assert 100 * found["changes"].healthy.ever == pytest.approx(14, abs=1.5)
    assert 100 * found["days"].healthy.ever == pytest.approx(1.4, abs=1.5)


def test_most_commits_come_around_noon() -> None:
    assert time_of_day(0.5) == pytest.approx(0.5)
    assert 24 * time_of_day(0.09) == pytest.approx(6, abs=0.1)
    assert 24 * time_of_day(0.91) == pytest.approx(18, abs=0.1)


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
