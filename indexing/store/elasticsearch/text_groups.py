"""Counts the tests of a repository by file; tests without a file by the path in their name.

The engine adds up by file. The groups of each file, such as its directory, are found here.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from indexing.groups import BADNESS, FindValues, GroupCounts
from indexing.models.groups import Grouping
from indexing.models.tests import TestSort
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.concurrency import run_both
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.distinct_tests import (
    HEALTH,
    Ids,
    count_tests,
    read_levels,
    split,
    split_rows,
    tests_by_badness,
    within_ids,
)
from indexing.store.elasticsearch.search.aggregation import search_rows
from indexing.store.elasticsearch.search.query import FILE, MISSING, NAME, key_of

# The sums of each bucket, by short names: a response has many.
_SUMS: Final = {"e": "executions_count", "f": TestSort.FAILED_EXECUTIONS_COUNT.value}
_TEST_NAME: Final = "test_name"

# The most buckets of a response; a cluster allows 65,536.
_BUCKETS: Final = 60_000
# The most characters that all files or names of one aggregation should have: a response with more
# would take too much memory and time to parse. The rows of a sample tell how long they are.
_CHARACTERS: Final = 1_000_000
_SAMPLE: Final = 100
# The part of the buckets that a request is expected to fill. Some room is left, because ids are not
# distributed quite evenly, and the engine only estimates the number of files.
_FULL: Final = 0.9
# With more paths than this among the names of tests without a file, all of these names are read:
# each search for those that have a path scans all names.
_MOST_PATHS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Overview:
    """The rows by badness, how many have no file, and about how many files and characters."""

    rows: Counter[int]
    without_file: int
    files: int
    characters: float


@dataclass(frozen=True, slots=True)
class _Texts:
    """The rows whose files or names are read, and about how many different texts they have."""

    field: str
    query: Mapping[str, Any]
    rows: int
    different: int

    def split_of(self, text: str) -> tuple[str | None, str | None]:
        """Return the file and the test name of a bucket."""
        if self.field == _TEST_NAME:
            return None, text
        # Rows without a file are in the bucket of the empty key.
        return (text.partition("\0")[2] if text else None), None


async def count_texts(
    cluster: Cluster, repository: RepositoryName, by: Grouping, find_values: FindValues
) -> GroupCounts:
    counts = GroupCounts()
    overview = await _look_over(cluster, repository)
    if not overview.rows:
        return counts
    levels = sorted(overview.rows)
    wanted = min(_BUCKETS // (1 + len(levels)), int(_CHARACTERS / overview.characters))
    size = max(1, wanted)
    add_last: Callable[[], None] = _nothing
    for texts in await _choose_texts(cluster, repository, by, overview):
        is_too_much = texts.different > _FULL * size
        ranges = split_rows(texts.rows, int(texts.rows / (_FULL * size)) + 1 if is_too_much else 1)
        while ranges:
            ids = ranges.pop()
            body = _body(texts, levels, ids, size)
            # The last answer is added up while the engine works on the next one.
            answer, _ = await run_both(
                search_rows(cluster, repository, body), asyncio.to_thread(add_last)
            )
            add_last = _nothing
            found = answer["aggregations"]
            if _is_cut(found) and ids[1] - ids[0] > 1:
                ranges += split(ids, 2)
            else:
                add_last = partial(_add, counts, texts, found, find_values)
    await asyncio.to_thread(add_last)
    return counts


def _nothing() -> None:
    return None


async def _look_over(cluster: Cluster, repository: RepositoryName) -> _Overview:
    body = {
        "size": _SAMPLE,
        "track_total_hits": False,
        "query": {"term": {"repository_id": routing_of(repository)}},
        "stored_fields": "_none_",
        "docvalue_fields": [FILE, _TEST_NAME],
        "aggs": {
            "health": {
                "terms": {"field": HEALTH, "missing": MISSING[HEALTH], "size": len(BADNESS)}
            },
            "files": {"cardinality": {"field": FILE}},
            "without": {"missing": {"field": FILE}},
        },
    }
    answer = await search_rows(cluster, repository, body)
    found = answer["aggregations"]
    sample = [
        hit["fields"].get(FILE) or hit["fields"][_TEST_NAME] for hit in answer["hits"]["hits"]
    ]
    return _Overview(
        Counter({BADNESS[each["key"]]: each["doc_count"] for each in found["health"]["buckets"]}),
        found["without"]["doc_count"],
        found["files"]["value"],
        sum(len(text) for (text,) in sample) / max(1, len(sample)),
    )


async def _choose_texts(
    cluster: Cluster, repository: RepositoryName, by: Grouping, overview: _Overview
) -> list[_Texts]:
    """Return what to read: the files, and the names of tests that have no file but may have a path.

    The groups of all other tests without a file are the same whatever their names.
    """
    routing = routing_of(repository)
    everything = {"term": {"repository_id": routing}}
    files = _Texts(FILE, everything, overview.rows.total(), overview.files + 1)
    if by is Grouping.OWNER or not overview.without_file:
        return [files]
    no_file = {"must_not": [{"exists": {"field": FILE}}]}
    has_path = {"bool": {"filter": [{"wildcard": {NAME: key_of(routing, "*/*")}}], **no_file}}
    body = {"size": 0, "track_total_hits": True, "query": has_path}
    paths = (await search_rows(cluster, repository, body))["hits"]["total"]["value"]
    if not paths:
        return [files]
    names = _Texts(_TEST_NAME, has_path, paths, paths)
    if paths > _MOST_PATHS * overview.without_file:
        query = {"bool": {"filter": [everything], **no_file}}
        names = _Texts(_TEST_NAME, query, overview.without_file, overview.without_file)
    others = {"bool": {"filter": [everything], "must_not": [names.query]}}
    return [names, replace(files, query=others)]


def _body(texts: _Texts, levels: Sequence[int], ids: Ids, size: int) -> dict[str, Any]:
    terms: dict[str, Any] = {"field": texts.field, "size": size}
    if texts.field == FILE:
        terms["missing"] = ""
    sums = {name: {"sum": {"field": field}} for name, field in _SUMS.items()}
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": [texts.query, *within_ids(ids)]}},
        "aggs": {
            "texts": {"terms": terms, "aggs": sums},
            "levels": count_tests(levels, texts.rows, {"texts": {"terms": terms}}),
        },
    }


def _is_cut(found: Mapping[str, Any]) -> bool:
    """Return whether there are more files or names than buckets."""
    cut: bool = found["texts"]["sum_other_doc_count"] > 0
    return cut


def _add(
    counts: GroupCounts, texts: _Texts, found: Mapping[str, Any], find_values: FindValues
) -> None:
    reached: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for level, tests in read_levels(found["levels"]):
        for bucket in tests["texts"]["buckets"]:
            reached[bucket["key"]][level] = bucket["doc_count"]
    for bucket in found["texts"]["buckets"]:
        text = bucket["key"]
        sums = [round(bucket[each]["value"]) for each in _SUMS]
        of_text = [*tests_by_badness(reached[text]), *sums]
        for value in find_values(*texts.split_of(text)):
            counts.add(value, of_text)
