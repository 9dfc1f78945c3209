"""Chooses how to read a page of the test search: which plans to try, in which order. Pure."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

from indexing import globs
from indexing.models.paging import Anchor, Page
from indexing.models.tests import HEALTH_NUMBERS, HealthStatus, IdentityKey, TestIdentity, TestQuery
from indexing.store.sqlite.search.conditions import is_heavy, narrowing_condition
from indexing.store.sqlite.search.pages import (
    count_in_order,
    count_narrowed,
    search_candidates,
    search_few,
    search_few_narrowed,
    search_in_order,
    search_narrowed,
)
from indexing.store.sqlite.search.plan import Narrowing, find_narrowing

Plan: TypeAlias = partial[Page[TestIdentity] | None]
LastPlan: TypeAlias = partial[Page[TestIdentity]]


class Strategy(NamedTuple):
    """Plans for the same page, each of which takes a connection, in the order to try them.

    `last` always applies. With `briefly`, the first plan is either fast or useless, so it gets a
    small budget. With `is_slow`, `last` is the only plan and takes too long for the event loop.
    """

    last: LastPlan
    plans: tuple[Plan | LastPlan, ...] = ()
    briefly: bool = False
    is_slow: bool = False


class CountStrategy(NamedTuple):
    """The plans for a count; like `Strategy`."""

    last: partial[int]
    plans: tuple[partial[int], ...] = ()
    is_slow: bool = False


def choose_strategy(query: TestQuery, anchor: Anchor[IdentityKey], limit: int) -> Strategy:
    """Choose the plans for a page, without reading anything.

    Which plan is best is only known while reading, so all but the last are tried within a budget.
    """
    by_candidates = partial(search_candidates, query=query, anchor=anchor, limit=limit)
    if all(globs.is_literal(pattern) for pattern in query.patterns):
        return Strategy(by_candidates)
    if any(is_heavy(pattern) for pattern in query.all_patterns):
        return Strategy(by_candidates, is_slow=True)
    few = partial(search_few, query=query, anchor=anchor, limit=limit)
    in_order = partial(search_in_order, query=query, anchor=anchor, limit=limit)
    plans: tuple[Plan | LastPlan, ...]
    match find_narrowing(query):
        case Narrowing.NOTHING:
            plans, briefly, last = (in_order,), True, in_order
        case Narrowing.RANGES:
            plans, briefly, last = (few, in_order), False, by_candidates
        case Narrowing.GRAMS:
            # If many names match, intersecting n-grams takes longer than finding a page in order.
            plans, briefly, last = (in_order, few, in_order), True, by_candidates
    if is_narrowed(query):
        # The names may narrow the search more than the filters, so both are tried.
        narrowed = partial(search_narrowed, query=query, anchor=anchor, limit=limit)
        # Sorting many rows takes longer than a walk that soon finds enough of them.
        few_narrowed = partial(search_few_narrowed, query=query, anchor=anchor, limit=limit)
        others = (few_narrowed, in_order) if last is in_order else (last,)
        return Strategy(narrowed, (*plans, *others), briefly)
    return Strategy(last, plans if last is not in_order else (), briefly)


def choose_counts(query: TestQuery, most: int) -> CountStrategy:
    """Choose the plans for a count up to `most`."""
    by_name = partial(count_in_order, query=query, most=most)
    narrowed = partial(count_narrowed, query=query, most=most)
    if any(is_heavy(pattern) for pattern in query.all_patterns):
        return CountStrategy(narrowed, is_slow=True)
    return CountStrategy(narrowed, () if is_narrowed(query) else (by_name,))


def is_narrowed(query: TestQuery) -> bool:
    """Return whether the filters other than names may leave few rows."""
    numbers = query.health_numbers
    return narrowing_condition(query, 0) is not None or (
        numbers is not None and HEALTH_NUMBERS[HealthStatus.HEALTHY] not in numbers
    )
