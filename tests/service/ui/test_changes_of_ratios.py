"""The overview compares the failed executions of two weeks."""

from __future__ import annotations

import re

import pytest

from indexing.models.executions import Conclusion
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.service.front_door import FrontDoor
from tests.service.ui.signed_in import read, sign_in


async def load_failure(door: FrontDoor, days: int, passed: int) -> None:
    """Load a run with one failure and that many passes."""
    run = make_run(f"{days}", commit=f"{-days:040}")
    results = [(f"passes {number}", Conclusion.PASSED) for number in range(passed)]
    executions = make_executions(run, [("fails", Conclusion.FAILED), *results], after(days=days))
    await door.store.write_results(WIDGETS, {run: executions})


@pytest.mark.parametrize(
    ("passed", "passed_before", "shown"),
    [
        (60, 61, '<p class="change">as a week ago'),
        (61, 60, '<p class="change">as a week ago'),
        (60, 64, '<p class="change worse">0.1 points more than the week before'),
        (64, 60, '<p class="change better">0.1 points less than the week before'),
    ],
)
async def test_a_change_that_would_be_shown_as_zero_is_none(
    door: FrontDoor, passed: int, passed_before: int, shown: str
) -> None:
    await door.store.ensure_repository(WIDGETS)
    await load_failure(door, -10, passed_before)
    await load_failure(door, -3, passed)
    await door.store.refresh_tests(NOON)
    assert shown in await read_tile(door)


async def test_a_week_without_results_is_compared_with_nothing(door: FrontDoor) -> None:
    await door.store.ensure_repository(WIDGETS)
    await load_failure(door, -10, 60)
    await door.store.refresh_tests(NOON)
    assert '<p class="change">no results in these days' in await read_tile(door)


async def read_tile(door: FrontDoor) -> str:
    page = await read(await sign_in(door), "/ui/acme/widgets")
    tile = re.sub(r"<svg.*?</svg>", "", page.partition("Failed executions")[2]).partition("</a>")[0]
    return re.sub(r"\s+", " ", tile).replace('"> ', '">')
