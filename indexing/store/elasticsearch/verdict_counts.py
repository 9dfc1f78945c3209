"""Counts the verdicts of tests since a day, from the roll-ups in their documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final

from indexing.health.rollups import Job, Rollup
from indexing.health.verdict_counts import count_verdicts as count_in
from indexing.models.verdict_counts import VerdictCounts, VerdictsSince
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.repositories import find_repository
from indexing.store.elasticsearch.stored_rollups import derive_from_rollups

# A document holds all roll-ups of a test, which may be thousands.
_TESTS_A_REQUEST: Final = 10
# The largest other parts of the document.
_UNUSED: Final = ("history", "lasting_verdicts", "rows")


async def count_verdicts(
    cluster: Cluster, repository: RepositoryName, requested: Collection[VerdictsSince]
) -> dict[VerdictsSince, VerdictCounts]:
    settings = await find_repository(cluster, repository)
    routing = routing_of(repository)
    counts = dict.fromkeys(requested, VerdictCounts())
    if settings is None:
        return counts
    tests = [
        (test_id, list(days))
        for test_id, days in groupby(sorted(counts), key=attrgetter("test_id"))
    ]
    for start in range(0, len(tests), _TESTS_A_REQUEST):
        some = tests[start : start + _TESTS_A_REQUEST]
        places = [Place(cluster.layout.tests, str(test_id), routing) for test_id, _ in some]
        documents = await cluster.connection.get_many(places, without=_UNUSED)
        for (_, days), found in zip(some, documents, strict=True):
            if found is not None and found.source["repository_id"] == routing:
                count = partial(_count_all, days)
                counts |= await derive_from_rollups(cluster, settings, found.source, count)
    return counts


def _count_all(
    days: Sequence[VerdictsSince], rollups: dict[Job, Rollup]
) -> dict[VerdictsSince, VerdictCounts]:
    return {since: count_in(rollups.values(), since.first_day) for since in days}
