"""Counts the tests of a repository in groups: by pipeline, job or file.

The engine has no exact count of distinct tests, so this reads the values of all search rows. Ids of
tests are hashes, so they are evenly distributed. Each request selects a range of ids that contains
about one page. So the cost of a request depends on the page, not on the number of all rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from indexing.groups import BADNESS, FindValues, GroupCounts
from indexing.models.groups import Grouping, TestGroup
from indexing.models.tests import TestSort
from indexing.names import RepositoryName
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.search.query import FILE, MISSING

_HEALTH: Final = TestSort.HEALTH_STATUS.value
_FAILED: Final = TestSort.FAILED_EXECUTIONS_COUNT.value
# The values of each row, which are also the sort key. The first three are unique together.
_VALUES: Final = (
    "test_id",
    "pipeline_name",
    "job_name",
    _HEALTH,
    "executions_count",
    _FAILED,
)
_NAMES: Final = {Grouping.PIPELINE: 1, Grouping.JOB: 2}
# Further values of a row, if tests are grouped by file.
_TEXTS: Final = (FILE, "test_name")

# The rows of the first request, and of each further one.
_FIRST_ROWS: Final = 1_000
_ROWS: Final = 5_000
# The most characters of one page: rows with long names would take too much memory and time to
# parse.
_CHARACTERS: Final = 1_000_000
# The part of a page that the rows of a range are expected to fill. Some room is left, because ids
# are not distributed quite evenly.
_FULL: Final = 0.9
# A range of ids is given by their first digits, as a hexadecimal number of this length.
_DIGITS: Final = 8
_IDS: Final = 16**_DIGITS

_Row = Sequence[Any]


async def group_tests(
    cluster: Cluster,
    repository: RepositoryName,
    by: Grouping,
    most: int,
    find_values: FindValues,
) -> list[TestGroup]:
    adding = _Adding(by, find_values)
    values = _VALUES if by in _NAMES else (*_VALUES, *_TEXTS)
    async for rows in _read_rows(cluster, repository, values):
        await asyncio.to_thread(adding.add, rows)
    await asyncio.to_thread(adding.finish)
    return await asyncio.to_thread(adding.counts.choose_worst, most)


async def _read_rows(
    cluster: Cluster, repository: RepositoryName, values: Sequence[str]
) -> AsyncGenerator[Sequence[_Row], None]:
    """Yield the values of all rows in pages; the rows of a test follow each other."""
    low, high, size = 0, _IDS, _FIRST_ROWS
    after: _Row | None = None
    seen = 0
    while low < _IDS:
        async with cluster.searches.slot():
            answer = await cluster.connection.search(
                cluster.layout.identities,
                _body(repository, values, (low, high), size, after),
                routing=routing_of(repository),
            )
        rows = [hit["sort"] for hit in answer["hits"]["hits"]]
        yield rows
        seen += len(rows)
        is_whole = len(rows) < size
        after = None if is_whole else rows[-1]
        low = high if after is None else int(after[0][:_DIGITS], 16)
        size = _choose_size(rows, size)
        ids_a_row = max(1, low) / max(1, seen)
        high = min(_IDS, low + 1 + int(size * _FULL * ids_a_row))


def _choose_size(rows: Sequence[_Row], size: int) -> int:
    """Return the size of the next page, given the rows and the size of this one."""
    if not rows:
        return size
    characters = sum(len(value) for row in rows for value in row if isinstance(value, str))
    return min(_ROWS, max(1, _CHARACTERS * len(rows) // max(1, characters)))


def _body(
    repository: RepositoryName,
    values: Sequence[str],
    ids: tuple[int, int],
    size: int,
    after: _Row | None,
) -> dict[str, Any]:
    low, high = ids
    within: dict[str, str] = {"gte": f"{low:0{_DIGITS}x}"}
    if high < _IDS:
        within["lt"] = f"{high:0{_DIGITS}x}"
    body: dict[str, Any] = {
        "size": size,
        "track_total_hits": False,
        "query": {
            "bool": {
                "filter": [
                    {"term": {"repository_id": routing_of(repository)}},
                    {"range": {"test_id": within}},
                ]
            }
        },
        "sort": [
            {name: {"order": "asc", "missing": MISSING[name]}} if name in MISSING else {name: "asc"}
            for name in values
        ],
        "stored_fields": "_none_",
    }
    if after is not None:
        body["search_after"] = list(after)
    return body


class _Adding:
    """Adds up rows in groups, one test after the other."""

    def __init__(self, by: Grouping, find_values: FindValues) -> None:
        self.counts = GroupCounts()
        self._name = _NAMES.get(by)
        self._find_values = find_values
        self._test_id: str | None = None
        self._texts: tuple[str | None, str | None] = (None, None)
        # The groups of the current test: badness, executions and failed executions in each.
        self._groups: dict[str | None, list[int]] = {}

    def add(self, rows: Sequence[_Row]) -> None:
        for row in rows:
            test_id, _, _, health, executions, failed, *texts = row
            if test_id != self._test_id:
                self.finish()
                self._test_id = test_id
                if texts:
                    file_key, test_name = texts
                    file = None if file_key is None else file_key.partition("\0")[2]
                    self._texts = (file, test_name)
            value = None if self._name is None else row[self._name]
            badness = BADNESS[health]
            group = self._groups.get(value)
            if group is None:
                self._groups[value] = [badness, executions, failed]
            else:
                group[0] = max(group[0], badness)
                group[1] += executions
                group[2] += failed

    def finish(self) -> None:
        """Add the current test to the counts; all of its rows have been read."""
        for name, group in self._groups.items():
            values = self._find_values(*self._texts) if self._name is None else (name,)
            for value in values:
                self.counts.add_test(value, *group)
        self._groups.clear()
