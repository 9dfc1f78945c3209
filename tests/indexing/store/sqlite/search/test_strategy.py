"""The query strategies that the embedded store tries for a search page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from indexing.models.paging import Anchor
from indexing.models.tests import HealthStatus, TestQuery, TestSort
from indexing.store.sqlite.search.strategy import (
    choose_strategy,
    search_candidates,
    search_few,
    search_few_narrowed,
    search_in_order,
    search_narrowed,
)
from tests.builders import WIDGETS


@pytest.mark.parametrize(
    ("patterns", "plans"),
    [
        pytest.param(("a.b", "a.c"), (search_candidates,), id="whole names"),
        pytest.param(("*",), (search_in_order,), id="every name"),
        pytest.param(("a.*",), (search_few, search_in_order, search_candidates), id="a beginning"),
        pytest.param(("*.a",), (search_few, search_in_order, search_candidates), id="an end"),
        pytest.param(
            ("*middle*",),
            (search_in_order, search_few, search_in_order, search_candidates),
            id="a part",
        ),
        pytest.param(
            ("*ab*",),
            (search_in_order, search_few, search_in_order, search_candidates),
            id="two characters",
        ),
    ],
)
def test_each_kind_of_pattern_has_its_plans(
    patterns: tuple[str, ...], plans: tuple[Callable[..., Any], ...]
) -> None:
    strategy = choose_strategy(TestQuery(WIDGETS, patterns), Anchor(), 10)
    assert tuple(plan.func for plan in (*strategy.plans, strategy.last)) == plans
    assert not strategy.is_slow


def test_few_rows_of_a_health_are_sorted_and_many_are_met_on_a_walk() -> None:
    query = TestQuery(WIDGETS, ("*",), TestSort.JOB_NAME, health=(HealthStatus.BROKEN,))
    strategy = choose_strategy(query, Anchor(), 10)
    assert [plan.func for plan in (*strategy.plans, strategy.last)] == [
        search_in_order,
        search_few_narrowed,
        search_in_order,
        search_narrowed,
    ]


def test_a_long_pattern_is_left_to_a_thread() -> None:
    strategy = choose_strategy(TestQuery(WIDGETS, ("*" + "a?" * 40,)), Anchor(), 10)
    assert strategy.is_slow
    assert strategy.last.func == search_candidates
    assert not strategy.plans


def test_the_first_plan_is_brief_where_it_may_be_useless() -> None:
    brief = [
        choose_strategy(TestQuery(WIDGETS, (pattern,)), Anchor(), 10).briefly
        for pattern in ("*", "*middle*", "a.*", "*.a", "a.b")
    ]
    assert brief == [True, True, False, False, False]
