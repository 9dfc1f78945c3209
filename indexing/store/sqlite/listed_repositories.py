"""Lists the repositories of an owner with figures of each.

The figures are read from indexes and from the stored counts in `health_counts`.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from indexing.models.listed_repositories import (
    ListedRepository,
    RepositoryKey,
    RepositoryQuery,
    RepositorySort,
    TestCounts,
)
from indexing.models.paging import Anchor, Page
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.quarantine_rows import IN_FORCE
from indexing.store.sqlite.repositories import REPOSITORY_COLUMNS, repository_of
from indexing.timestamps import moment_or_none, to_microseconds

# The counts to show, and negated ones to sort by, so that the worst come first. If flaky detection
# is off, flaky tests count as healthy.
_OWNED: Final = f"""
SELECT r.id, r.key, {REPOSITORY_COLUMNS},
    ifnull(h.healthy, 0) + iif(flaky_detection, 0, ifnull(h.flaky, 0)) AS healthy,
    iif(flaky_detection, ifnull(h.flaky, 0), 0) AS flaky,
    ifnull(h.broken, 0) AS broken,
    ifnull(h.unknown, 0) AS unknown,
    -ifnull(h.broken, 0) AS by_broken,
    -iif(flaky_detection, ifnull(h.flaky, 0), 0) AS by_flaky
FROM repositories r LEFT JOIN health_counts h ON h.repository_id = r.id
"""
_FIGURES: Final = f"""
    (SELECT count(DISTINCT q.test_id) FROM quarantines q INDEXED BY quarantines_of_tests
        WHERE q.repository_id = p.id AND {IN_FORCE}),
    (SELECT max(u.last_finished_at) FROM runs u WHERE u.repository_id = p.id),
    (SELECT max(e.received_at) FROM events e WHERE e.repository_id = p.id)
"""
_ORDERS: Final = {
    RepositorySort.NAME: ("key",),
    RepositorySort.WORST: ("by_broken", "by_flaky", "key"),
}
# The character after the slash in the code table: every key of the owner is less than the owner's
# name with this character.
_AFTER_SLASH: Final = "0"


def list_owned(
    connection: sqlite3.Connection,
    query: RepositoryQuery,
    anchor: Anchor[RepositoryKey],
    limit: int,
) -> Page[ListedRepository]:
    if query.name is None:
        # Both bounds apply to the index of keys, so only the owner's rows are read.
        where, bounds = "r.key > ? AND r.key < ?", [query.prefix, query.prefix[:-1] + _AFTER_SLASH]
    else:
        where, bounds = "r.key = ?", [query.prefix + query.name.lower()]
    columns = _ORDERS[query.sort]

    def key_of(key: RepositoryKey) -> tuple[Any, ...]:
        return (-key.broken, -key.flaky, query.prefix + key.name)[-len(columns) :]

    def fetch(rows: Slice) -> list[ListedRepository]:
        found = connection.execute(
            f"SELECT p.*, {_FIGURES} FROM (SELECT * FROM ({_OWNED} WHERE {where})"
            f" WHERE {rows.condition} {rows.limited_order}) p {rows.order}",
            (to_microseconds(query.now), *bounds, *rows.parameters),
        )
        return [_row_of(row) for row in found]

    return read_page(fetch, columns, anchor=anchor, key_of=key_of, ascending=True, limit=limit)


def _row_of(row: tuple[Any, ...]) -> ListedRepository:
    _, _, *settings, healthy, flaky, broken, unknown, _, _, quarantined, executed, received = row
    return ListedRepository(
        repository_of(tuple(settings)),
        TestCounts(healthy, flaky, broken, unknown),
        quarantined,
        moment_or_none(executed),
        moment_or_none(received),
    )
