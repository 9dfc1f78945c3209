"""The ways to read a page of the test search: in order, or by candidates."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from indexing import globs
from indexing.models.paging import Anchor, Page
from indexing.models.tests import (
    HEALTH_NUMBERS,
    VALUE_SORTS,
    HealthStatus,
    IdentityKey,
    TestIdentity,
    TestQuery,
    TestSort,
)
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.repositories import find_repository_id
from indexing.store.sqlite.search.conditions import (
    EXACT_MATCH,
    Sql,
    filter_condition,
    list_marks,
    name_condition,
    narrowing_condition,
)
from indexing.store.sqlite.search.plan import (
    ORDERS,
    candidates,
    name_ranges,
    narrow_further,
    prefix_bounds,
)
from indexing.store.sqlite.search.rows import (
    make_identities,
    read_columns,
    shown_columns,
)

# If at most this many tests may match, looking them up and sorting them takes less time than
# walking an index for a page.
FEW: Final = 400

_EMPTY: Final[Page[TestIdentity]] = Page((), has_previous=False, has_next=False)
_HEALTHY: Final = HEALTH_NUMBERS[HealthStatus.HEALTHY]
# The sort orders for which an index has the rows of each health status together.
_BY_STATUS: Final = frozenset(
    {TestSort.HEALTH_STATUS, TestSort.TEST_NAME, TestSort.EXECUTIONS_COUNT}
)


@dataclass(frozen=True, slots=True)
class Source:
    """An index to read; `presence` is its condition for rows that the search shows."""

    index: str
    presence: str = "health_status IS NOT NULL"

    @property
    def text(self) -> str:
        return f"identities i INDEXED BY {self.index}"


_BY_TEST: Final = Source("identities_by_test")
_BY_NAME: Final = Source("identities_by_test_name")
_BY_HEALTH: Final = Source("identities_by_health_status")


def add_functions(connection: sqlite3.Connection) -> None:
    """Register the SQL functions of the search on the connection."""
    connection.create_function(EXACT_MATCH, 2, globs.matches, deterministic=True)


def search_in_order(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Walk the index of the sort order; the cost grows with the rows skipped until a full page."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    if query.sort is TestSort.HEALTH_STATUS or (
        query.health_numbers is not None and query.sort in _BY_STATUS
    ):
        return _StatusWalk(connection, query, repository_id).page(anchor, limit)
    return _Rows(connection, query, repository_id, _source_of(query.sort)).page(anchor, limit)


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
    return _Rows(connection, query, repository_id, _BY_TEST, narrowed).page(anchor, limit)


def search_narrowed(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    """Look up and sort all rows that pass the filters other than names; these are the cost."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    return _Rows(connection, query, repository_id, *_narrow(query, repository_id)).page(
        anchor, limit
    )


def search_few_narrowed(
    connection: sqlite3.Connection, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity] | None:
    """Do the same as `search_narrowed` if so few rows remain that nothing is faster; else None."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return _EMPTY
    if not _are_few(connection, repository_id, *_narrow(query, repository_id)):
        return None
    return search_narrowed(connection, query, anchor, limit)


def _narrow(query: TestQuery, repository_id: int) -> tuple[Source, Sql]:
    """Return the index and the condition for rows that pass the filters other than names."""
    narrowed = narrowing_condition(query, repository_id)
    if narrowed is not None:
        return _BY_TEST, narrowed
    numbers = query.health_numbers or ()
    return _BY_HEALTH, Sql(f" AND health_status IN ({list_marks(numbers)})", numbers)


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
        if _are_few(connection, repository_id, source, narrowed):
            rest = Sql("1") if names.exact else None
            rows = _Rows(connection, query, repository_id, source, narrowed, rest)
            return rows.page(anchor, limit)
    narrow = narrow_further(query, repository_id)
    if narrow is None:
        return None
    found = connection.execute(f"{narrow.text} LIMIT {FEW + 1}", narrow.values).fetchall()
    if len(found) > FEW:
        return None
    # One parameter for any number of tests, so SQLite can reuse the prepared statement.
    tests = orjson.dumps([test for (test,) in found]).decode()
    narrowed = Sql(" AND i.test IN (SELECT value FROM json_each(?))", (tests,))
    return _Rows(connection, query, repository_id, _BY_TEST, narrowed).page(anchor, limit)


def count_in_order(connection: sqlite3.Connection, query: TestQuery, most: int) -> int:
    """Walk the index of names up to `most` matches; the cost grows with the rows skipped."""
    repository_id = find_repository_id(connection, query.repository)
    return 0 if repository_id is None else _count(connection, query, repository_id, _BY_NAME, most)


def count_narrowed(connection: sqlite3.Connection, query: TestQuery, most: int) -> int:
    """Count matches among the rows that pass the filters, or among the candidates by name.

    The cost grows with the number of these rows.
    """
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return 0
    if narrowing_condition(query, repository_id) is not None or query.health_numbers is not None:
        source, narrowed = _narrow(query, repository_id)
        return _count(connection, query, repository_id, source, most, narrowed)
    narrow = candidates(query, repository_id)
    if narrow is None:
        return _count(connection, query, repository_id, _BY_NAME, most)
    narrowed = Sql(f" AND i.test IN ({narrow.text})", narrow.values)
    return _count(connection, query, repository_id, _BY_TEST, most, narrowed)


def _count(
    connection: sqlite3.Connection,
    query: TestQuery,
    repository_id: int,
    source: Source,
    most: int,
    narrowed: Sql | None = None,
) -> int:
    if query.health_numbers == ():
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
    connection: sqlite3.Connection, repository_id: int, source: Source, narrowed: Sql
) -> bool:
    count: int
    (count,) = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {source.text} WHERE repository_id = ?"
        f" AND {source.presence}{narrowed.text} LIMIT {FEW + 1})",
        (repository_id, *narrowed.values),
    ).fetchone()
    return count <= FEW


def _source_of(sort: TestSort) -> Source:
    index = f"identities_by_{sort.value}"
    is_name = sort in (TestSort.TEST_NAME, TestSort.PIPELINE_NAME, TestSort.JOB_NAME)
    return Source(index) if is_name else Source(index, f"{sort.value} IS NOT NULL")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a search, read from one index.

    `narrowed` is a further condition; it is empty, or begins with AND. `names` replaces the
    condition of the patterns, if it is set.
    """

    connection: sqlite3.Connection
    query: TestQuery
    repository_id: int
    source: Source
    narrowed: Sql = Sql("")  # noqa: RUF009 - frozen
    names: Sql | None = None

    def page(self, anchor: Anchor[IdentityKey], limit: int) -> Page[TestIdentity]:
        columns = ORDERS[self.query.sort]
        return read_page(
            self.fetch,
            columns,
            anchor=anchor,
            key_of=lambda key: sort_key_of(key, self.query.sort),
            ascending=not self.query.descending,
            limit=limit,
        )

    def fetch(self, rows: Slice) -> list[TestIdentity]:
        query = self.query
        if query.health_numbers == ():
            # All included statuses are excluded too, and SQLite has no plan for an empty set.
            return []
        names = self.names or name_condition(query)
        filters = filter_condition(query)
        bounds = _name_bounds(query, rows)
        shown = shown_columns(query)
        columns = ", ".join(read_columns(query))
        sql = (
            f"SELECT {shown.text} FROM (SELECT {columns} FROM {self.source.text}"
            f" WHERE repository_id = ? AND {self.source.presence}"
            f"{self.narrowed.text}{bounds.text} AND {rows.condition} AND {names.text}"
            f"{filters.text} {rows.limited_order}) found {rows.order}"
        )
        values = (
            *shown.values,
            self.repository_id,
            *self.narrowed.values,
            *bounds.values,
            *rows.parameters,
            *names.values,
            *filters.values,
        )
        return make_identities(query, self.connection.execute(sql, values))


@dataclass(frozen=True, slots=True)
class _StatusWalk:
    """The rows of some health statuses; an index has each status in the order of the search."""

    connection: sqlite3.Connection
    query: TestQuery
    repository_id: int

    def page(self, anchor: Anchor[IdentityKey], limit: int) -> Page[TestIdentity]:
        sort = self.query.sort
        return read_page(
            self._fetch_in_turn if sort is TestSort.HEALTH_STATUS else self._fetch_merged,
            ORDERS[sort],
            anchor=anchor,
            key_of=lambda key: sort_key_of(key, sort),
            ascending=not self.query.descending,
            limit=limit,
        )

    def _fetch_in_turn(self, rows: Slice) -> list[TestIdentity]:
        """Read one status after the other, from the status of the key on."""
        found: list[TestIdentity] = []
        for number in sorted(self._numbers, reverse=not rows.ascending):
            key = None
            if rows.key is not None:
                status, *names = rows.key
                if number != status and (number < status) is rows.ascending:
                    continue
                key = tuple(names) if number == status else None
            left = None if rows.limit is None else rows.limit - len(found)
            if left == 0:
                break
            found += self._fetch_status(
                number, replace(rows, columns=rows.columns[1:], key=key, limit=left)
            )
        return found

    def _fetch_merged(self, rows: Slice) -> list[TestIdentity]:
        found = [row for number in self._numbers for row in self._fetch_status(number, rows)]
        sort = self.query.sort
        # Python compares code points, which gives the same order as SQLite's bytes of UTF-8.
        found.sort(key=lambda row: sort_key_of(row.key, sort), reverse=not rows.ascending)
        return found[: rows.limit]

    def _fetch_status(self, number: int, rows: Slice) -> list[TestIdentity]:
        source = _BY_HEALTH
        if self.query.sort is TestSort.EXECUTIONS_COUNT:
            source = _source_of(self.query.sort)
            if number != _HEALTHY:
                source = Source("identities_by_unhealthy_count", "health_status <> 0")
        narrowed = Sql(f" AND health_status = {number}")
        query = replace(self.query, health=(), health_excluded=())
        return _Rows(self.connection, query, self.repository_id, source, narrowed).fetch(rows)

    @property
    def _numbers(self) -> Sequence[int]:
        numbers = self.query.health_numbers
        return tuple(HEALTH_NUMBERS.values()) if numbers is None else numbers


def sort_key_of(key: IdentityKey, sort: TestSort) -> tuple[Any, ...]:
    """Return the values of the columns of that sort order."""
    if sort in VALUE_SORTS:
        return (key.value, key.test_name, key.pipeline_name, key.job_name)
    return tuple(getattr(key, column) for column in ORDERS[sort])


def _name_bounds(query: TestQuery, rows: Slice) -> Sql:
    """Bound the names by a common prefix if the page is sorted by name.

    SQLite uses one bound at each end of an index. At the end where the key is, the key is the
    nearer bound. A second bound there, for the prefix, could replace it, and a deep page would cost
    more than the first one.
    """
    bounds = prefix_bounds(query) if rows.columns[0] == "test_name" else None
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
