"""Chooses the columns to read for a search, and converts the rows. Runs no query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from indexing.identifiers import DeriveTestId, make_test_id_deriver
from indexing.models.tests import VALUE_SORTS, IdentityKey, TestIdentity, TestQuery
from indexing.store.row_values import RowValues
from indexing.store.sqlite.metrics import METRICS_COLUMNS
from indexing.store.sqlite.search.conditions import Sql, quarantined_condition

KEY_COLUMNS: Final = ("executions_count", "test_name", "pipeline_name", "job_name")


def read_columns(query: TestQuery) -> Iterable[str]:
    """Return the columns to read of every match before the page is cut; as few as possible."""
    sorted_by = (query.sort.value,) if query.sort in VALUE_SORTS else ()
    metrics = ("test", *METRICS_COLUMNS) if query.with_metrics else ()
    return dict.fromkeys(("identity_id", *KEY_COLUMNS, *sorted_by, *metrics))


def shown_columns(query: TestQuery) -> Sql:
    """Return the columns of a row of the page `found`: its key, its sort value, its metrics."""
    value = query.sort.value if query.sort in VALUE_SORTS else "NULL"
    text = ", ".join(("identity_id", *KEY_COLUMNS, value))
    if not query.with_metrics:
        return Sql(text)
    quarantined = quarantined_condition(query, "found.test")
    return Sql(f"{text}, {', '.join(METRICS_COLUMNS)}, {quarantined.text}", quarantined.values)


def make_identities(query: TestQuery, rows: Iterable[tuple[Any, ...]]) -> list[TestIdentity]:
    """Convert rows with the columns of `shown_columns` to identities."""
    make = _identity_with_metrics if query.with_metrics else _identity_of
    # Deriving the id of a test takes less time than looking it up in another table.
    derive_test_id_of = make_test_id_deriver(query.repository)
    return [make(row, derive_test_id_of) for row in rows]


def _identity_of(row: tuple[Any, ...], derive_test_id_of: DeriveTestId) -> TestIdentity:
    identity_id, *key = row
    return TestIdentity(identity_id, derive_test_id_of(row[2]), IdentityKey(*key))


def _identity_with_metrics(row: tuple[Any, ...], derive_test_id_of: DeriveTestId) -> TestIdentity:
    size = len(KEY_COLUMNS) + 1
    identity_id, *rest = row
    *metrics, is_quarantined = rest[size:]
    return TestIdentity(
        identity_id,
        derive_test_id_of(row[2]),
        IdentityKey(*rest[:size]),
        RowValues(*metrics).metrics(is_quarantined=bool(is_quarantined)),
    )
