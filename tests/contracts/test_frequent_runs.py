"""Sequences that run often, in any store: the rule that counts days, in any order of loading."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.tests import TestHealth
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests import independent_health
from tests.builders import NOON, WIDGETS, after, make_executions, make_run

LATER = after(days=60)
LETTERS = {"P": Conclusion.PASSED, "F": Conclusion.FAILED}


@dataclass(frozen=True)
class Result:
    """One execution of the test: its place in the order of loading, commit, and result."""

    loaded: float
    at: datetime
    commit: str
    letter: str

    def told(self) -> dict[str, Any]:
        """The result as the independent script takes it."""
        return {
            "at": self.at,
            "commit": self.commit,
            "result": "passed" if self.letter == "P" else "failed",
            "job": "unit",
            "machine_failed": False,
        }


def day(number: int, letters: str, *, hour: float = 8) -> list[Result]:
    """Make one commit every seven minutes, starting at this UTC hour of the day."""
    start = NOON.replace(hour=0) + timedelta(days=number, hours=hour)
    return [
        Result(number, start + timedelta(minutes=7 * index), f"c{number}-{index}", letter)
        for index, letter in enumerate(letters)
    ]


async def load(
    store: Store, results: Iterable[Result], repository: RepositoryName = WIDGETS, *, step: int = 30
) -> None:
    await store.ensure_repository(repository)
    ordered = sorted(results, key=lambda each: each.loaded)
    for start in range(0, len(ordered), step):
        written = {}
        for result in ordered[start : start + step]:
            run = make_run(f"{result.commit} {result.at}", commit=result.commit)
            written[run] = make_executions(
                run, [("t", LETTERS[result.letter])], result.at, repository=repository
            )
        await store.write_results(repository, written)
        await store.refresh_tests(LATER)


async def read_health(store: Store, repository: RepositoryName = WIDGETS) -> TestHealth:
    found = await store.get_test(repository, derive_test_id(repository, "t"))
    assert found is not None
    return found.health


async def status(store: Store) -> str:
    return (await read_health(store)).health_status.value


async def test_few_lone_failures_in_many_runs_are_seen(store: Store) -> None:
    good, lone = "P" * 12, "PPPPPPPPPFPP"
    results = [*day(0, lone), *day(3, lone), *day(6, good)]
    await load(store, results)
    assert await status(store) == "healthy"
    await load(store, day(7, lone))
    assert await status(store) == "flaky"
    quiet = 0
    while await status(store) == "flaky":
        quiet += 1
        await load(store, day(7 + quiet, good))
    # Four days had a verdict until the last lone failure, three of them one: 5 * 4 / 3.
    assert quiet == 7


async def test_a_test_that_has_just_failed_clears_after_as_many_days_as_it_says(
    store: Store,
) -> None:
    good, lone = "P" * 12, "PPPPPPPPPFPP"
    for number, letters in enumerate([lone, good, good, lone, lone, "P" * 11 + "F"]):
        await load(store, day(number, letters))
    report = await store.get_health(WIDGETS, derive_test_id(WIDGETS, "t"))
    assert report is not None
    assert "8 days without a failure will clear it" in report.jobs[0].explanation
    quiet = 0
    while await status(store) == "flaky":
        quiet += 1
        await load(store, day(5 + quiet, good))
    assert quiet == 8


async def test_the_result_before_the_window_is_a_neighbour(store: Store) -> None:
    lone = "F" + "P" * 11
    results = [
        each
        for number in (0, 14, 29)
        for each in day(number, lone if number == 0 else "PPF" + "P" * 9)
    ]
    await load(store, results)
    # The first failure of the window follows nothing.
    assert await status(store) == "healthy"
    older = Result(0, results[0].at - timedelta(days=20), "older", "P")
    await load(store, [older])
    assert await status(store) == "flaky"


# These histories cross the border between both rules, two of them more than once.
@pytest.mark.parametrize("seed", [12, 31, 36])
async def test_late_results_and_reruns_lead_to_what_all_of_them_say(
    store: Store, seed: int
) -> None:
    ordered = sorted(make_late_history(seed), key=lambda each: each.loaded)
    often = set()
    for end in range(17, len(ordered) + 17, 17):
        await load(store, ordered[end - 17 : end])
        told = [each.told() for each in ordered[:end]]
        assert await status(store) == independent_health.judge_test(told)["health_status"]
        often.add(is_often(told))
    assert often == {True, False}
    merged = await read_health(store)
    together = RepositoryName("acme", "together")
    await load(store, sorted(ordered, key=lambda each: each.at), together, step=1_000)
    assert await read_health(store, together) == merged
    await store.rebuild(LATER)
    assert await read_health(store) == merged


def make_late_history(seed: int) -> list[Result]:
    """Make about ten verdicts a day, over midnight, up to three days late, with some reruns."""
    order = random.Random(seed)
    results: list[Result] = []
    for number in range(6):
        letters = "".join(order.choices("PF", (16, 1), k=order.randint(10, 15)))
        for each in day(number, letters, hour=23):
            late = each.loaded + order.choice([0, 0, 0, order.uniform(0, 3)])
            results.append(Result(late, each.at, each.commit, each.letter))
            if order.random() < 0.06:
                again = each.at + timedelta(hours=order.uniform(1, 72))
                letter = order.choice("PF")
                results.append(Result(order.uniform(0, 8), again, each.commit, letter))
    return results


def is_often(told: list[dict[str, Any]]) -> bool:
    """Whether there are at least ten verdicts for each day that has one."""
    days = [at.date() for at, _, _ in independent_health.judge_commits(told)]
    return len(days) >= 10 * len(set(days))
