"""Which plans a search tries for a page, and in which order. Nothing is read here.

Which plan is best shows only in the reading, so all but the last are tried within a budget.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

from indexing.globs import is_literal
from indexing.models.paging import Anchor, Page
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery
from indexing.store.sqlite.search.pages import search_candidates, search_few, search_in_order
from indexing.store.sqlite.search.plan import Narrowing, find_narrowing, is_heavy

Plan: TypeAlias = partial[Page[TestIdentity] | None]
LastPlan: TypeAlias = partial[Page[TestIdentity]]


class Strategy(NamedTuple):
    """Plans for the same page, each of which takes a connection, in the order to try them.

    `last` always applies. `briefly`: the first plan is best when it is short, and useless
    otherwise. `is_slow`: `last` is the only plan, and it takes too long for the event loop.
    """

    last: LastPlan
    plans: tuple[Plan | LastPlan, ...] = ()
    briefly: bool = False
    is_slow: bool = False


def choose_strategy(query: TestQuery, anchor: Anchor[IdentityKey], limit: int) -> Strategy:
    candidates = partial(search_candidates, query=query, anchor=anchor, limit=limit)
    if all(is_literal(pattern) for pattern in query.patterns):
        return Strategy(candidates)
    if any(is_heavy(pattern) for pattern in query.patterns):
        return Strategy(candidates, is_slow=True)
    few = partial(search_few, query=query, anchor=anchor, limit=limit)
    in_order = partial(search_in_order, query=query, anchor=anchor, limit=limit)
    match find_narrowing(query):
        case Narrowing.NOTHING:
            return Strategy(in_order, briefly=True)
        case Narrowing.RANGES:
            return Strategy(candidates, (few, in_order))
        case Narrowing.TRIGRAMS:
            # Intersecting trigrams takes longer than finding a page if many names match.
            return Strategy(candidates, (in_order, few, in_order), briefly=True)
