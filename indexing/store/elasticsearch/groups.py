"""Counts the tests of a repository in groups: by pipeline, job or file.

The engine adds up, so few and small responses are read, however many rows there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indexing.groups import BADNESS, FindValues, GroupCounts
from indexing.models.groups import Grouping, TestGroup
from indexing.models.tests import TestSort
from indexing.names import RepositoryName
from indexing.store.elasticsearch import text_groups
from indexing.store.elasticsearch.client.scanning import GROUPS, groups_body
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.distinct_tests import (
    HEALTH,
    Ids,
    count_tests,
    read_levels,
    split_rows,
    tests_by_badness,
    within_ids,
)
from indexing.store.elasticsearch.search.aggregation import search_rows
from indexing.store.elasticsearch.search.query import MISSING

# The field of each grouping by name, and the one that sets rows of a test in one group apart.
_NAMES: Final = {
    Grouping.PIPELINE: ("pipeline_name", "job_name"),
    Grouping.JOB: ("job_name", "pipeline_name"),
}
_SUMS: Final = ("executions_count", TestSort.FAILED_EXECUTIONS_COUNT.value)

# The buckets of one page of pipelines, jobs and states of health. A page is decoded at once, and a
# bucket may have 16 kB of names.
_BUCKETS: Final = 1_000
# The places that the engine reserves for tests in one request, for all groups together.
_PLACES: Final = 1_000_000
# The groups of one request: each takes about 3 ms, however small it is.
_GROUPS_AT_ONCE: Final = 100


@dataclass(slots=True)
class _Named:
    """What is known of one group by name: its rows by badness, and its sums."""

    rows: Counter[int] = field(default_factory=Counter)
    others: set[str] = field(default_factory=set)
    sums: list[int] = field(default_factory=lambda: [0] * len(_SUMS))

    @property
    def total(self) -> int:
        return self.rows.total()


async def group_tests(
    cluster: Cluster,
    repository: RepositoryName,
    by: Grouping,
    most: int,
    find_values: FindValues,
) -> list[TestGroup]:
    if by in _NAMES:
        counts = await _count_names(cluster, repository, *_NAMES[by])
    else:
        counts = await text_groups.count_texts(cluster, repository, by, find_values)
    return await asyncio.to_thread(counts.choose_worst, most)


async def _count_names(
    cluster: Cluster, repository: RepositoryName, name: str, other: str
) -> GroupCounts:
    groups: defaultdict[str, _Named] = defaultdict(_Named)
    async for buckets in _read_combinations(cluster, repository, name, other):
        await asyncio.to_thread(_add_rows, groups, buckets, name, other)
    # A test has one row in each pipeline and job, so rows are tests if there is only one of both.
    several = {value: group for value, group in groups.items() if len(group.others) > 1}
    distinct = await _count_distinct(cluster, repository, name, several)
    counts = GroupCounts()
    for value, group in groups.items():
        tests = distinct.get(value, Counter()) if value in several else group.rows
        by_badness = [tests[badness] for badness in sorted(BADNESS.values())]
        counts.add(value, [*by_badness, *group.sums])
    return counts


def _add_rows(
    groups: defaultdict[str, _Named], buckets: Sequence[Mapping[str, Any]], name: str, other: str
) -> None:
    for bucket in buckets:
        key = bucket["key"]
        group = groups[key[name]]
        health = MISSING[HEALTH] if key[HEALTH] is None else key[HEALTH]
        group.rows[BADNESS[int(health)]] += bucket["doc_count"]
        group.others.add(key[other])
        for place, each in enumerate(_SUMS):
            group.sums[place] += round(bucket[each]["value"])


async def _count_distinct(
    cluster: Cluster, repository: RepositoryName, name: str, groups: Mapping[str, _Named]
) -> Mapping[str, Counter[int]]:
    """Count the tests of each group by badness."""
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    largest_first = sorted(groups, key=lambda value: groups[value].total, reverse=True)
    for values in _batches(largest_first, groups):
        levels = sorted({level for value in values for level in groups[value].rows})
        most = groups[values[0]].total
        rows = sum(groups[value].total for value in values)
        within = count_tests(levels, most, {"rows": {"value_count": {"field": "test_id"}}})
        for ids in split_rows(rows):
            body = _body_of_tests(repository, name, values, within, ids)
            answer = await search_rows(cluster, repository, body)
            for bucket in answer["aggregations"]["groups"]["buckets"]:
                reached = {level: at["doc_count"] for level, at in read_levels(bucket["levels"])}
                found[bucket["key"]].update(dict(enumerate(tests_by_badness(reached))))
    return found


async def _read_combinations(
    cluster: Cluster, repository: RepositoryName, name: str, other: str
) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
    """Yield the number of rows of each pipeline, job and health, and their sums, in pages."""
    query = {"term": {"repository_id": routing_of(repository)}}
    health = {HEALTH: {"terms": {"field": HEALTH, "missing_bucket": True}}}
    sums = {each: {"sum": {"field": each}} for each in _SUMS}
    after: Mapping[str, Any] | None = None
    while True:
        body = groups_body(query, (name, other, health), size=_BUCKETS, within=sums, after=after)
        answer = await search_rows(cluster, repository, body)
        found = answer["aggregations"][GROUPS]
        yield found["buckets"]
        if len(found["buckets"]) < _BUCKETS:
            return
        after = found["after_key"]


def _batches(values: Sequence[str], groups: Mapping[str, _Named]) -> Iterator[Sequence[str]]:
    """Split the groups, the largest first, so that each request reserves a limited memory."""
    start = 0
    while start < len(values):
        places = groups[values[start]].total * len(BADNESS)
        end = start + min(_GROUPS_AT_ONCE, max(1, _PLACES // places))
        yield values[start:end]
        start = end


def _body_of_tests(
    repository: RepositoryName,
    name: str,
    values: Sequence[str],
    within: Mapping[str, Any],
    ids: Ids,
) -> dict[str, Any]:
    filters = [
        {"term": {"repository_id": routing_of(repository)}},
        {"terms": {name: values}},
        *within_ids(ids),
    ]
    return {
        "size": 0,
        "track_total_hits": False,
        "query": {"bool": {"filter": filters}},
        "aggs": {
            "groups": {
                "terms": {"field": name, "size": len(values)},
                "aggs": {"levels": within},
            }
        },
    }
