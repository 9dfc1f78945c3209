"""Reads the rows of a test search from one index: its columns, its order, its pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, Final

from indexing import globs
from indexing.identifiers import DeriveTestId, make_test_id_deriver
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import covers_branch
from indexing.models.tests import (
    HEALTH_NUMBERS,
    VALUE_SORTS,
    HealthStatus,
    IdentityKey,
    TestIdentity,
    TestQuery,
    TestSort,
    number_statuses,
)
from indexing.store.row_values import RowValues
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.metrics import METRICS_COLUMNS
from indexing.store.sqlite.search.conditions import (
    COVERS_BRANCH,
    EXACT_MATCH,
    Sql,
    filter_condition,
    name_condition,
    quarantined_condition,
)
from indexing.store.sqlite.search.plan import prefix_bounds

_KEY_COLUMNS: Final = ("executions_count", "test_name", "pipeline_name", "job_name")
# Every sort order ends in the three names, which are unique together.
_ORDERS: Final = {
    TestSort.EXECUTIONS_COUNT: ("executions_count", "test_name", "pipeline_name", "job_name"),
    TestSort.TEST_NAME: ("test_name", "pipeline_name", "job_name"),
    TestSort.PIPELINE_NAME: ("pipeline_name", "test_name", "job_name"),
    TestSort.JOB_NAME: ("job_name", "test_name", "pipeline_name"),
    **{sort: (sort.value, "test_name", "pipeline_name", "job_name") for sort in VALUE_SORTS},
}

# The rows to keep as identities; each takes about a kilobyte.
_KEPT: Final = 4_096
# What `IdentityKey._make` does for a tuple of the right length, in a third of the time.
_make_key: Final = partial(tuple.__new__, IdentityKey)

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


BY_TEST: Final = Source("identities_by_test")
BY_NAME: Final = Source("identities_by_test_name")
BY_HEALTH: Final = Source("identities_by_health_status")


def add_functions(connection: sqlite3.Connection) -> None:
    """Register the SQL functions of the search on the connection."""
    connection.create_function(EXACT_MATCH, 2, globs.matches, deterministic=True)
    connection.create_function(COVERS_BRANCH, 2, covers_branch, deterministic=True)


def read_in_order(
    connection: sqlite3.Connection,
    query: TestQuery,
    repository_id: int,
    anchor: Anchor[IdentityKey],
    limit: int,
) -> Page[TestIdentity]:
    """Read a page from the index of the sort order."""
    if query.sort is TestSort.HEALTH_STATUS or (
        query.health is not None and query.sort in _BY_STATUS
    ):
        return _StatusWalk(connection, query, repository_id).page(anchor, limit)
    return Rows(connection, query, repository_id, _source_of(query.sort)).page(anchor, limit)


@cache
def _source_of(sort: TestSort) -> Source:
    index = f"identities_by_{sort.value}"
    is_name = sort in (TestSort.TEST_NAME, TestSort.PIPELINE_NAME, TestSort.JOB_NAME)
    return Source(index) if is_name else Source(index, f"{sort.value} IS NOT NULL")


@dataclass(frozen=True, slots=True)
class Rows:
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
        columns = _ORDERS[self.query.sort]
        return read_page(
            self.fetch,
            columns,
            anchor=anchor,
            key_of=lambda key: _sort_key_of(key, self.query.sort),
            ascending=not self.query.descending,
            limit=limit,
        )

    def fetch(self, rows: Slice) -> list[TestIdentity]:
        query = self.query
        if query.health == ():
            # All included statuses are excluded too, and SQLite has no plan for an empty set.
            return []
        names = self.names or name_condition(query)
        filters = filter_condition(query)
        bounds = _name_bounds(query, rows)
        shown = _shown_columns(query)
        matching = (
            f"FROM {self.source.text}"
            f" WHERE repository_id = ? AND {self.source.presence}"
            f"{self.narrowed.text}{bounds.text} AND {rows.condition} AND {names.text}"
            f"{filters.text} {rows.limited_order}"
        )
        if query.with_metrics:
            # Whether a test is quarantined is looked up for the rows of the page only.
            columns = _read_columns(query.sort)
            sql = f"SELECT {shown.text} FROM (SELECT {columns} {matching}) found {rows.order}"
        else:
            sql = f"SELECT {shown.text} {matching}"
        values = (
            *shown.values,
            self.repository_id,
            *self.narrowed.values,
            *bounds.values,
            *rows.parameters,
            *names.values,
            *filters.values,
        )
        return _make_identities(query, self.connection.execute(sql, values))


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
            _ORDERS[sort],
            anchor=anchor,
            key_of=lambda key: _sort_key_of(key, sort),
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
        found.sort(key=lambda row: _sort_key_of(row.key, sort), reverse=not rows.ascending)
        return found[: rows.limit]

    def _fetch_status(self, number: int, rows: Slice) -> list[TestIdentity]:
        source = BY_HEALTH
        if self.query.sort is TestSort.EXECUTIONS_COUNT:
            source = _source_of(self.query.sort)
            if number != _HEALTHY:
                source = Source("identities_by_unhealthy_count", "health_status <> 0")
        narrowed = Sql(f" AND health_status = {number}")
        query = replace(self.query, health=None)
        return Rows(self.connection, query, self.repository_id, source, narrowed).fetch(rows)

    @property
    def _numbers(self) -> Sequence[int]:
        return number_statuses(HealthStatus if self.query.health is None else self.query.health)


def _sort_key_of(key: IdentityKey, sort: TestSort) -> tuple[Any, ...]:
    """Return the values of the columns of that sort order."""
    if sort in VALUE_SORTS:
        return (key.value, key.test_name, key.pipeline_name, key.job_name)
    return tuple(getattr(key, column) for column in _ORDERS[sort])


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


@cache
def _read_columns(sort: TestSort) -> str:
    """Return the columns of the page `found`, before `_shown_columns` adds to them."""
    sorted_by = (sort.value,) if sort in VALUE_SORTS else ()
    columns = (*_KEY_COLUMNS, *sorted_by, "test", *METRICS_COLUMNS)
    return ", ".join(dict.fromkeys(columns))


def _shown_columns(query: TestQuery) -> Sql:
    """Return the columns of a row of a page: its key, its sort value, its metrics."""
    columns = _columns_of_key(query.sort)
    if not query.with_metrics:
        return columns
    quarantined = quarantined_condition(query, "found.test")
    metrics = ", ".join(METRICS_COLUMNS)
    return Sql(f"{columns.text}, {metrics}, {quarantined.text}", quarantined.values)


@cache
def _columns_of_key(sort: TestSort) -> Sql:
    value = sort.value if sort in VALUE_SORTS else "NULL"
    return Sql(", ".join((*_KEY_COLUMNS, value)))


def _make_identities(query: TestQuery, rows: Iterable[tuple[Any, ...]]) -> list[TestIdentity]:
    """Convert rows with the columns of `_shown_columns` to identities."""
    if query.with_metrics:
        make = _identity_with_metrics
    else:
        # A tuple with the value 1 is equal to one with 1.0, so rows with values are not kept.
        make = _identity_of if query.sort in VALUE_SORTS else _known_identity_of
    # Deriving the id of a test takes less time than looking it up in another table.
    derive_test_id_of = make_test_id_deriver(query.repository)
    return [make(row, derive_test_id_of) for row in rows]


def _identity_of(row: tuple[Any, ...], derive_test_id_of: DeriveTestId) -> TestIdentity:
    return TestIdentity(derive_test_id_of(row[1]), _make_key(row))


# Most searches show the tests with the most executions that match, so they have rows in common.
_known_identity_of: Final = lru_cache(_KEPT)(_identity_of)


def _identity_with_metrics(row: tuple[Any, ...], derive_test_id_of: DeriveTestId) -> TestIdentity:
    size = len(_KEY_COLUMNS) + 1
    *metrics, is_quarantined = row[size:]
    return TestIdentity(
        derive_test_id_of(row[1]),
        IdentityKey(*row[:size]),
        RowValues(*metrics).metrics(is_quarantined=bool(is_quarantined)),
    )
