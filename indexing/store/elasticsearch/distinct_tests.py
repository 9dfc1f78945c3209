"""Counts tests in the engine, each by the worst health of its rows. Pure.

The engine has no exact count of distinct values, but a sampler can keep one document of each test.
Their number is exact if all of them fit, because one shard has all rows of a repository. It would
be slow to replace a document that the sampler has kept by one of a worse health. So tests are
counted once for each health, among the rows that are at least as bad, and the differences are the
tests of each health.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from indexing.groups import BADNESS
from indexing.models.tests import TestSort

HEALTH: Final = TestSort.HEALTH_STATUS.value

# A range of ids is given by their first digits, as a hexadecimal number of this length. Ids are
# hashes, so they are evenly distributed, and all rows of a test are in one range.
_DIGITS: Final = 8
_IDS: Final = 16**_DIGITS
Ids = tuple[int, int]
ALL_IDS: Final[Ids] = (0, _IDS)

# The rows among which one request counts distinct tests. The engine takes about 150 bytes for each.
_ROWS: Final = 200_000
_TESTS: Final = "tests"


def split(ids: Ids, parts: int) -> list[Ids]:
    """Split a range of ids into equal parts; a range of one id stays whole."""
    low, high = ids
    ends = sorted({low + (high - low) * part // parts for part in range(parts + 1)})
    return [*pairwise(ends)]


def split_rows(rows: int, parts: int = 1) -> list[Ids]:
    """Split all ids, at least into `parts`, so that each range has few enough of so many rows."""
    return split(ALL_IDS, max(parts, -(-rows // _ROWS)))


def within_ids(ids: Ids) -> list[dict[str, Any]]:
    """Return the clause that a test is in the range; none if all are."""
    low, high = ids
    if ids == ALL_IDS:
        return []
    bounds = {"gte": f"{low:0{_DIGITS}x}"}
    if high < _IDS:
        bounds["lt"] = f"{high:0{_DIGITS}x}"
    return [{"range": {"test_id": bounds}}]


def count_tests(levels: Sequence[int], most: int, within: Mapping[str, Any]) -> dict[str, Any]:
    """Return the aggregation of tests whose worst row is at least as bad as each level.

    `levels` are the values of `BADNESS` that occur, ascending. There must be at most `most` tests.
    `within` are the aggregations of the tests of each level; the engine requires at least one.
    """
    clauses: dict[str, Any] = {
        str(level): {"terms": {HEALTH: [number for number, bad in BADNESS.items() if bad >= level]}}
        for level in levels
    }
    # Includes the rows of an earlier release, which have no health.
    clauses[str(levels[0])] = {"match_all": {}}
    sampler = {"field": "test_id", "max_docs_per_value": 1, "shard_size": most}
    return {
        "filters": {"filters": clauses},
        "aggs": {_TESTS: {"diversified_sampler": sampler, "aggs": within}},
    }


def read_levels(found: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each level of `count_tests` with the bucket of its tests."""
    for level, bucket in found["buckets"].items():
        yield int(level), bucket[_TESTS]


def tests_by_badness(reached: Mapping[int, int]) -> list[int]:
    """Return the number of tests by badness, given how many are at least as bad as each level."""
    counts = [0] * len(BADNESS)
    worse = 0
    for level in sorted(reached, reverse=True):
        counts[level] = reached[level] - worse
        worse = reached[level]
    return counts
