"""Counts the tests of a repository by health.

The health of a test is the worst of its rows in the search. The rows have it in a column; the
documents of tests have it only in their source, with everything else that is stored of a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from indexing.groups import BADNESS
from indexing.models.groups import WORST_FIRST
from indexing.models.tests import HEALTH_NUMBERS, HealthStatus
from indexing.names import RepositoryName
from indexing.store.elasticsearch import distinct_tests
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.distinct_tests import HEALTH

# Only a scrape of the metrics waits for these searches, so they may take longer than a reader would
# wait.
_COUNTING: Final = {"size": 0, "timeout": "8s"}
_KNOWN: Final = [
    HEALTH_NUMBERS[status] for status in HealthStatus if status is not HealthStatus.UNKNOWN
]
_OF_ROWS: Final = {"rows": {"value_count": {"field": "test_id"}}}


async def count_tests(cluster: Cluster, repository: RepositoryName) -> Mapping[HealthStatus, int]:
    routing = routing_of(repository)
    everything = {"term": {"repository_id": routing}}
    await cluster.connection.refresh(cluster.layout.tests)
    tests, rows = await cluster.connection.search_many(
        [
            Search(
                cluster.layout.tests,
                {**_COUNTING, "query": everything, "track_total_hits": True},
                routing,
            ),
            Search(
                cluster.layout.identities,
                {
                    **_COUNTING,
                    "query": {"bool": {"filter": [everything, {"terms": {HEALTH: _KNOWN}}]}},
                    "track_total_hits": False,
                    "aggs": {"health": {"terms": {"field": HEALTH}}},
                },
                routing,
            ),
        ],
        timeouts=WRITING,
    )
    judged = {each["key"]: each["doc_count"] for each in rows["aggregations"]["health"]["buckets"]}
    counts = await _count_judged(cluster, routing, judged)
    # All other tests have no judged row, or no row at all.
    others = max(0, tests["hits"]["total"]["value"] - counts.total())
    return {status: counts[status] for status in HealthStatus} | {HealthStatus.UNKNOWN: others}


async def _count_judged(
    cluster: Cluster, routing: str, rows: Mapping[int, int]
) -> Counter[HealthStatus]:
    """Count the tests with a judged row by health; `rows` are these rows by health number."""
    counts: Counter[HealthStatus] = Counter()
    levels = sorted(BADNESS[health] for health in rows)
    total = sum(rows.values())
    for ids in distinct_tests.split_rows(total) if levels else ():
        filters: list[dict[str, Any]] = [
            {"term": {"repository_id": routing}},
            {"terms": {HEALTH: _KNOWN}},
            *distinct_tests.within_ids(ids),
        ]
        body = {
            **_COUNTING,
            "query": {"bool": {"filter": filters}},
            "track_total_hits": False,
            "aggs": {"levels": distinct_tests.count_tests(levels, total, _OF_ROWS)},
        }
        answer = await cluster.connection.search(
            cluster.layout.identities, body, routing=routing, timeouts=WRITING
        )
        found = distinct_tests.read_levels(answer["aggregations"]["levels"])
        reached = {level: bucket["doc_count"] for level, bucket in found}
        by_badness = distinct_tests.tests_by_badness(reached)
        counts.update(dict(zip(reversed(WORST_FIRST), by_badness, strict=True)))
    return counts
