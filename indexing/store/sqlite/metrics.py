"""Writes the metrics that the search shows; they are columns of `identities`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from indexing.models.tests import TestMetrics
from indexing.store.row_values import RowValues

METRICS_COLUMNS: Final = RowValues._fields

# The metrics of an identity that the search does not show.
_NO_METRICS: Final[tuple[Any, ...]] = (None,) * len(METRICS_COLUMNS)


def store_metrics(
    connection: sqlite3.Connection,
    before: Mapping[int, tuple[Any, ...]],
    after: Mapping[int, TestMetrics | None],
    columns: Sequence[str] = METRICS_COLUMNS,
) -> None:
    """Write the changed ones of these columns, for each identity.

    `before` has the stored values of `METRICS_COLUMNS`. Unchanged columns are left out, because
    writing a column also updates its indexes.
    """
    for identity, metrics in after.items():
        now: tuple[Any, ...] = _NO_METRICS if metrics is None else RowValues.of(metrics)
        if now == before[identity]:
            continue
        values = zip(METRICS_COLUMNS, now, before[identity], strict=True)
        changed = {name: new for name, new, old in values if new != old and name in columns}
        if changed:
            names = ", ".join(f"{name} = ?" for name in changed)
            connection.execute(
                f"UPDATE identities SET {names} WHERE id = ?", (*changed.values(), identity)
            )
