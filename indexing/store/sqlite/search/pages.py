"""The test search: the ways to read a page, in order or by candidates, and which to try first."""

from __future__ import annotations

import sqlite3
import uuid
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from indexing import globs
from indexing.models.paging import Anchor, Page
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.repositories import find_repository_id
from indexing.store.sqlite.search.plan import (
    EXACT_MATCH,
    ORDERS,
    Narrowing,
    Sql,
    candidates,
    filter_condition,
    find_narrowing,
    is_heavy,
    name_condition,
    name_range,
    prefix_bounds,
)

# If at most this many tests match, looking them up and sorting them takes less time than walking an
# index for a page.
FEW: Final = 400

_KEY_COLUMNS: Final = ("executions_count", "test_name", "pipeline_name", "job_name")
_EMPTY: Final[Page[TestIdentity]] = Page((), has_previous=False, has_next=False)


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
    """Choose the plans for a page. Nothing is read here.

    Which plan is best shows only in the reading, so all but the last are tried within a budget.
    """
    by_candidates = partial(search_candidates, query=query, anchor=anchor, limit=limit)
    if all(globs.is_literal(pattern) for pattern in query.patterns):
        return Strategy(by_candidates)
    if any(is_heavy(pattern) for pattern in query.patterns):
        return Strategy(by_candidates, is_slow=True)
    few = partial(search_few, query=query, anchor=anchor, limit=limit)
    in_order = partial(search_in_order, query=query, anchor=anchor, limit=limit)
    match find_narrowing(query):
        case Narrowing.NOTHING:
            return Strategy(in_order, briefly=True)
        case Narrowing.RANGES:
            return Strategy(by_candidates, (few, in_order))
        case Narrowing.TRIGRAMS:
            # Intersecting trigrams takes longer than finding a page if many names match.
            return Strategy(by_candidates, (in_order, few, in_order), briefly=True)


def add_functions(connection: sqlite3.Connection) -> None:
    """Register the SQL functions of the search on the connection."""
    connection.create_function(EXACT_MATCH, 2, globs.matches, deterministic=True)


def search_in_order(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Walk the index of the sort order; the cost is the rows skipped on the way to a full page."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    source = Sql(f"identities i INDEXED BY identities_by_{query.sort.value}")
    return _page(connection, query, anchor, limit, repository_id, source, Sql(""))


def search_candidates(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Look up and sort what can match; the cost is its number, wherever the page lies."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    narrow = candidates(query, repository_id)
    if narrow is None:
        return search_in_order(connection, query, anchor, limit)
    source = Sql("identities i INDEXED BY identities_by_test")
    narrowed = Sql(f" AND i.test IN ({narrow.text})", narrow.values)
    return _page(connection, query, anchor, limit, repository_id, source, narrowed)


def search_few(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity] | None:
    """Search by candidates if they are so few that nothing is faster; else stop at little cost.

    None if there are more candidates than that, or nothing narrows them.
    """
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    between = name_range(query)
    if between is not None:
        source = Sql("identities i INDEXED BY identities_by_test_name")
        narrowed = Sql(f" AND {between.condition.text}", between.condition.values)
        if not _are_few(connection, repository_id, source, narrowed):
            return None
        names = Sql("1") if between.exact else None
    else:
        names = None
        narrow = candidates(query, repository_id)
        if narrow is None:
            return None
        found = connection.execute(f"{narrow.text} LIMIT {FEW + 1}", narrow.values).fetchall()
        if len(found) > FEW:
            return None
        source = Sql("identities i INDEXED BY identities_by_test")
        # One parameter for any number of tests, so SQLite can reuse the prepared statement.
        tests = orjson.dumps([test for (test,) in found]).decode()
        narrowed = Sql(" AND i.test IN (SELECT value FROM json_each(?))", (tests,))
    return _page(connection, query, anchor, limit, repository_id, source, narrowed, names)


def _are_few(
    connection: sqlite3.Connection, repository_id: int, source: Sql, narrowed: Sql
) -> bool:
    count: int
    (count,) = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {source.text} WHERE repository_id = ?"
        f" AND executions_count IS NOT NULL{narrowed.text} LIMIT {FEW + 1})",
        (repository_id, *narrowed.values),
    ).fetchone()
    return count <= FEW


def find_identity(
    connection: sqlite3.Connection, repository: RepositoryName, identity_id: bytes
) -> IdentityKey | None:
    row = connection.execute(
        f"SELECT {', '.join('i.' + column for column in _KEY_COLUMNS)} FROM identities i"
        " JOIN repositories r ON r.id = i.repository_id"
        " WHERE i.identity_id = ? AND r.key = ? AND i.executions_count IS NOT NULL",
        (identity_id, repository.key),
    ).fetchone()
    return None if row is None else IdentityKey(*row)


def _page(
    connection: sqlite3.Connection,
    query: TestQuery,
    anchor: Anchor[IdentityKey],
    limit: int,
    repository_id: int,
    source: Sql,
    narrowed: Sql,
    names: Sql | None = None,
) -> Page[TestIdentity]:
    """Read one page; `names` is the remaining name condition if it is not that of the patterns."""
    columns = ORDERS[query.sort]
    names = names or name_condition(query)
    filters = filter_condition(query)

    def fetch(rows: Slice) -> list[TestIdentity]:
        bounds = _name_bounds(query, rows)
        sql = (
            "SELECT identity_id, (SELECT test_id FROM tests WHERE tests.id = found.test),"
            f" {', '.join(_KEY_COLUMNS)} FROM (SELECT * FROM {source.text}"
            " WHERE repository_id = ? AND executions_count IS NOT NULL"
            f"{narrowed.text}{bounds.text} AND {rows.condition} AND {names.text}{filters.text}"
            f" {rows.limited_order}) found {rows.order}"
        )
        values = (
            repository_id,
            *narrowed.values,
            *bounds.values,
            *rows.parameters,
            *names.values,
            *filters.values,
        )
        return [_identity_of(row) for row in connection.execute(sql, values)]

    return read_page(
        fetch,
        columns,
        anchor=anchor,
        key_of=lambda key: tuple(getattr(key, column) for column in columns),
        ascending=not query.descending,
        limit=limit,
    )


def _name_bounds(query: TestQuery, rows: Slice) -> Sql:
    """Bound the names by a common prefix if the page is sorted by name.

    SQLite uses one bound on each side of an index. On the key's side the key is the nearer bound. A
    second bound there for the prefix could replace it, and a deep page would cost more than the
    first.
    """
    bounds = prefix_bounds(query) if query.sort is TestSort.TEST_NAME else None
    if bounds is None:
        return Sql("")
    lower, upper = bounds
    keyed_from_below = rows.key is not None and rows.ascending
    keyed_from_above = rows.key is not None and not rows.ascending
    text = ""
    values: list[str] = []
    if not keyed_from_below:
        text += " AND test_name >= ?"
        values.append(lower)
    if upper is not None and not keyed_from_above:
        text += " AND test_name < ?"
        values.append(upper)
    return Sql(text, tuple(values))


def _identity_of(row: tuple[Any, ...]) -> TestIdentity:
    identity_id, test_id, *key = row
    return TestIdentity(identity_id, uuid.UUID(bytes=test_id), IdentityKey(*key))
