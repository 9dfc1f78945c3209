"""Which ways to a page a search tries, and in which order. Nothing is read here.

Which way is best shows only in the reading, so all but the last are tried within a budget.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

from indexing.globs import is_literal
from indexing.models.paging import Anchor, Page
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery
from indexing.store.sqlite.search.pages import search_candidates, search_few, search_in_order
from indexing.store.sqlite.search.plan import Narrowing, find_narrowing, is_heavy

Way: TypeAlias = partial[Page[TestIdentity]]


class Strategy(NamedTuple):
    """Ways to the same page, each of which takes a connection, in the order to try them.

    `briefly`: the first way is the best one where it is short, and no good else. `is_slow`: there
    is one way, and it takes too long for the event loop.
    """

    ways: tuple[Way, ...]
    briefly: bool = False
    is_slow: bool = False


def choose_strategy(query: TestQuery, anchor: Anchor[IdentityKey], limit: int) -> Strategy:
    candidates = partial(search_candidates, query=query, anchor=anchor, limit=limit)
    if all(is_literal(pattern) for pattern in query.patterns):
        return Strategy((candidates,))
    if any(is_heavy(pattern) for pattern in query.patterns):
        return Strategy((candidates,), is_slow=True)
    few = partial(search_few, query=query, anchor=anchor, limit=limit)
    in_order = partial(search_in_order, query=query, anchor=anchor, limit=limit)
    match find_narrowing(query):
        case Narrowing.NOTHING:
            return Strategy((in_order,), briefly=True)
        case Narrowing.RANGES:
            return Strategy((few, in_order, candidates))
        case Narrowing.TRIGRAMS:
            # Intersecting trigrams takes longer than finding a page if many names match.
            return Strategy((in_order, few, in_order, candidates), briefly=True)
