"""Writes the metrics that the search shows; they are columns of `identities`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from indexing.models.tests import TestMetrics
from indexing.store.row_values import RowValues
from indexing.store.sqlite.refreshed_rows import RefreshedRows

METRICS_COLUMNS: Final = RowValues._fields

# The metrics of an identity that the search does not show.
_NO_METRICS: Final[tuple[Any, ...]] = (None,) * len(METRICS_COLUMNS)


def store_metrics(
    identity: int,
    before: tuple[Any, ...],
    metrics: TestMetrics | None,
    rows: RefreshedRows,
    columns: Collection[str] = METRICS_COLUMNS,
) -> bool:
    """Add the changed ones of these columns of an identity; return whether there are any.

    `before` has the stored values of `METRICS_COLUMNS`. Unchanged columns are left out, because
    writing a column also updates its indexes.
    """
    now: tuple[Any, ...] = _NO_METRICS if metrics is None else RowValues.of(metrics)
    if now == before:
        return False
    values = zip(METRICS_COLUMNS, now, before, strict=True)
    changed = {name: new for name, new, old in values if new != old and name in columns}
    if changed:
        rows.updates["identities", tuple(changed)].append((*changed.values(), identity))
    return bool(changed)
