"""The ways to read a page of the test search, and which of them to try, in which order."""

from __future__ import annotations

import sqlite3
from enum import Enum
from functools import lru_cache, partial
from typing import Final, NamedTuple

from indexing import globs
from indexing.models.paging import Anchor, Page
from indexing.models.tests import (
    HealthStatus,
    IdentityKey,
    TestIdentity,
    TestQuery,
    number_statuses,
)
from indexing.ngrams import BIGRAM
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.repositories import find_repository_id
from indexing.store.sqlite.search.conditions import (
    PATTERNS_KEPT,
    Sql,
    filter_condition,
    has_heavy_pattern,
    has_narrowing,
    list_marks,
    name_condition,
    narrowing_condition,
)
from indexing.store.sqlite.search.plan import candidates, name_ranges, narrow_further
from indexing.store.sqlite.search.rows import (
    BY_HEALTH,
    BY_NAME,
    BY_TEST,
    Rows,
    Source,
    read_in_order,
)

# If at most this many tests may match, looking them up and sorting them takes less time than
# walking an index for a page.
FEW: Final = 400
# With more rows than this, sorting them in a thread takes longer than walking to a page of them.
MANY: Final = 5_000

_EMPTY: Final[Page[TestIdentity]] = Page((), has_previous=False, has_next=False)

Plan = partial[Page[TestIdentity] | None]
LastPlan = partial[Page[TestIdentity]]


class Strategy(NamedTuple):
    """Plans for the same page, each of which takes a connection, in the order to try them.

    `last` always applies. With `briefly`, the first plan is either fast or useless, so it gets a
    small budget. With `is_slow`, `last` is the only plan and takes too long for the event loop.
    """

    last: LastPlan
    plans: tuple[Plan | LastPlan, ...] = ()
    briefly: bool = False
    is_slow: bool = False


class Narrowing(Enum):
    """How candidates are found for patterns."""

    # Each pattern is a name.
    LITERALS = "literals"
    # Not at all: at least one pattern has nothing to look up.
    NOTHING = "nothing"
    RANGES = "ranges"
    # At least one pattern needs n-grams, or is one of several with a suffix.
    GRAMS = "n-grams"


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
    narrowing = find_narrowing(query.patterns)
    if narrowing is Narrowing.LITERALS:
        return Strategy(by_candidates, is_slow=has_large_files(query))
    if has_heavy_pattern(query):
        return Strategy(by_candidates, is_slow=True)
    if has_large_files(query):
        of_files = partial(search_files, query=query, anchor=anchor, limit=limit)
        return Strategy(of_files if is_narrowed(query) else by_candidates, is_slow=True)
    few = partial(search_few, query=query, anchor=anchor, limit=limit)
    in_order = partial(search_in_order, query=query, anchor=anchor, limit=limit)
    plans: tuple[Plan | LastPlan, ...]
    match narrowing:
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
    if has_large_files(query) or has_heavy_pattern(query):
        return CountStrategy(narrowed, is_slow=True)
    return CountStrategy(narrowed, () if is_narrowed(query) else (by_name,))


@lru_cache(PATTERNS_KEPT)
def find_narrowing(patterns: tuple[str, ...]) -> Narrowing:
    """Return how `plan.candidates` would narrow a search for these patterns."""
    if all(globs.is_literal(pattern) for pattern in patterns):
        return Narrowing.LITERALS
    found = Narrowing.RANGES
    is_single = len(patterns) == 1
    for pattern in patterns:
        if globs.literal_prefix(pattern) or (is_single and globs.literal_suffix(pattern)):
            continue
        if all(len(run.encode()) < BIGRAM for run in globs.literal_runs(pattern)):
            return Narrowing.NOTHING
        found = Narrowing.GRAMS
    return found


def has_large_files(query: TestQuery) -> bool:
    """Return whether the search has to be read in a thread because of its files."""
    return query.files is not None and query.files.is_large


def is_narrowed(query: TestQuery) -> bool:
    """Return whether the filters other than names may leave few rows."""
    return has_narrowing(query) or (
        query.health is not None and HealthStatus.HEALTHY not in query.health
    )


def search_in_order(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Walk the index of the sort order; the cost grows with the rows skipped until a full page."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    return read_in_order(connection, query, repository_id, anchor, limit)


def search_candidates(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Look up and sort all candidates; the cost grows with their number, not with the position."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    narrow = candidates(query, repository_id)
    if narrow is None:
        return search_in_order(connection, query, anchor, limit)
    narrowed = Sql(f" AND i.test IN ({narrow.text})", narrow.values)
    return Rows(connection, query, repository_id, BY_TEST, narrowed).page(anchor, limit)


def search_narrowed(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Look up and sort all rows that pass the filters other than names; these are the cost."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    return Rows(connection, query, repository_id, *_narrow(query, repository_id)).page(
        anchor, limit
    )


def search_files(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Do the same as `search_narrowed`, unless many rows remain: a walk soon finds a page of them.

    The files of the query do not tell how many tests they have.
    """
    page = _search_narrowed_up_to(MANY, connection, query, anchor, limit)
    return search_in_order(connection, query, anchor, limit) if page is None else page


def search_few_narrowed(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity] | None:
    """Do the same as `search_narrowed` if so few rows remain that nothing is faster; else None."""
    return _search_narrowed_up_to(FEW, connection, query, anchor, limit)


def _search_narrowed_up_to(
    most: int,
    connection: sqlite3.Connection,
    query: TestQuery,
    anchor: Anchor[IdentityKey],
    limit: int,
) -> Page[TestIdentity] | None:
    """Do the same as `search_narrowed` if at most that many rows remain; else return None."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    source, narrowed = _narrow(query, repository_id)
    if not _are_few(connection, repository_id, source, narrowed, most):
        return None
    return Rows(connection, query, repository_id, source, narrowed).page(anchor, limit)


def _narrow(query: TestQuery, repository_id: int) -> tuple[Source, Sql]:
    """Return the index and the condition for rows that pass the filters other than names."""
    narrowed = narrowing_condition(query, repository_id)
    if narrowed is not None:
        return BY_TEST, narrowed
    numbers = number_statuses(query.health or ())
    return BY_HEALTH, Sql(f" AND health_status IN ({list_marks(numbers)})", numbers)


def search_few(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity] | None:
    """Search by candidates if they are so few that nothing is faster; else stop at little cost.

    Returns None if there are more candidates than `FEW`, or nothing narrows the search.
    """
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    for names in name_ranges(query):
        source = Source(names.index)
        narrowed = Sql(f" AND {names.condition.text}", names.condition.values)
        if _are_few(connection, repository_id, source, narrowed, FEW):
            rest = Sql("1") if names.exact else None
            rows = Rows(connection, query, repository_id, source, narrowed, rest)
            return rows.page(anchor, limit)
    narrow = narrow_further(query, repository_id)
    if narrow is None:
        return None
    found = connection.execute(f"{narrow.text} LIMIT {FEW + 1}", narrow.values).fetchall()
    if len(found) > FEW:
        return None
    # One parameter for any number of tests, so SQLite can reuse the prepared statement.
    tests = json_array([test for (test,) in found])
    narrowed = Sql(" AND i.test IN (SELECT value FROM json_each(?))", (tests,))
    return Rows(connection, query, repository_id, BY_TEST, narrowed).page(anchor, limit)


def count_in_order(connection: sqlite3.Connection, query: TestQuery, most: int) -> int:
    """Walk the index of names up to `most` matches; the cost grows with the rows skipped."""
    repository_id = find_repository_id(connection, query.repository)
    return 0 if repository_id is None else _count(connection, query, repository_id, BY_NAME, most)


def count_narrowed(connection: sqlite3.Connection, query: TestQuery, most: int) -> int:
    """Count matches among the rows that pass the filters, or among the candidates by name.

    The cost grows with the number of these rows.
    """
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return 0
    if has_narrowing(query) or query.health is not None:
        source, narrowed = _narrow(query, repository_id)
        return _count(connection, query, repository_id, source, most, narrowed)
    narrow = candidates(query, repository_id)
    if narrow is None:
        return _count(connection, query, repository_id, BY_NAME, most)
    narrowed = Sql(f" AND i.test IN ({narrow.text})", narrow.values)
    return _count(connection, query, repository_id, BY_TEST, most, narrowed)


def _count(
    connection: sqlite3.Connection,
    query: TestQuery,
    repository_id: int,
    source: Source,
    most: int,
    narrowed: Sql | None = None,
) -> int:
    if query.health == ():
        return 0
    narrowed = narrowed or Sql("")
    names = name_condition(query)
    filters = filter_condition(query)
    count: int
    (count,) = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {source.text} WHERE repository_id = ?"
        f" AND {source.presence}{narrowed.text} AND {names.text}{filters.text} LIMIT ?)",
        (repository_id, *narrowed.values, *names.values, *filters.values, most),
    ).fetchone()
    return count


def _are_few(
    connection: sqlite3.Connection,
    repository_id: int,
    source: Source,
    narrowed: Sql,
    most: int,
) -> bool:
    following = connection.execute(
        f"SELECT 1 FROM {source.text} WHERE repository_id = ?"
        f" AND {source.presence}{narrowed.text} LIMIT 1 OFFSET {most}",
        (repository_id, *narrowed.values),
    )
    return following.fetchone() is None
