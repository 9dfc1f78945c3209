"""Counts the verdicts of tests since a day, from their stored roll-ups."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Collection
from itertools import groupby
from operator import attrgetter
from typing import Final

from indexing.health.rollup_text import read_rollup
from indexing.health.rollups import Rollup
from indexing.health.verdict_counts import count_verdicts as count_in
from indexing.models.verdict_counts import VerdictCounts, VerdictsSince
from indexing.names import RepositoryName
from indexing.store.sqlite.repositories import find_repository_id
from indexing.store.sqlite.stored_tests import BRANCH_OF_REPOSITORY

# One statement for each test: each counts in the budget of a read on the event loop.
_ROLLUPS: Final = (
    "SELECT u.state FROM tests t JOIN repositories r ON r.id = t.repository_id"
    " JOIN identities i ON i.test = t.id JOIN rollups u ON u.identity = i.id"
    f" WHERE t.test_id = ? AND r.id = ? AND u.branch = ({BRANCH_OF_REPOSITORY})"
)


def count_verdicts(
    connection: sqlite3.Connection, repository: RepositoryName, requested: Collection[VerdictsSince]
) -> dict[VerdictsSince, VerdictCounts]:
    repository_id = find_repository_id(connection, repository)
    counts = dict.fromkeys(requested, VerdictCounts())
    if repository_id is None:
        return counts
    # One test at a time, as its roll-ups may be thousands.
    for test_id, days in groupby(sorted(counts), key=attrgetter("test_id")):
        rollups = _read(connection, repository_id, test_id)
        counts |= {since: count_in(rollups, since.first_day) for since in days}
    return counts


def _read(connection: sqlite3.Connection, repository_id: int, test_id: uuid.UUID) -> list[Rollup]:
    # Row by row, so that a long read can be interrupted between rows.
    rows = connection.execute(_ROLLUPS, (test_id.bytes, repository_id))
    return [rollup for (state,) in rows if (rollup := read_rollup(state)) is not None]
