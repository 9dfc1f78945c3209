"""Reads the executions of tests, as observations for the health rules.

They are read only for tests whose new executions cannot be merged into roll-ups: all executions, or
those of a time range.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from indexing.health.observations import Observation
from indexing.models.executions import Conclusion
from indexing.models.tests import METADATA_FIELDS, TestMetadata
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.arrivals import short_id
from indexing.store.elasticsearch.derived.observation_clauses import (
    TIME,
    Clause,
    clauses_between,
    requests_of,
)
from indexing.store.elasticsearch.derived.runs import find_failed
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.pull_requests import pull_of
from indexing.timestamps import to_microseconds

_BUCKETS_A_PAGE: Final = 2_000
# How many executions one step holds in memory at once.
_EXECUTIONS_AT_ONCE: Final = 25_000
# The most that a search may return.
_ROWS_A_PAGE: Final = 10_000
_CONCLUSIONS: Final = {conclusion.value: conclusion for conclusion in Conclusion}

_FIELDS: Final = (
    "execution_id",
    "test_id",
    "pipeline_name",
    "job_name",
    "branch",
    "run",
    "commit",
    "conclusion",
    TIME,
    "needed_retries",
    "pull",
    "duration",
    *METADATA_FIELDS,
)


class OnBranch(NamedTuple):
    """An observation with its shortened id, the id of its test and the branch that it ran on."""

    id: str
    test_id: str
    branch: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class ObservedBranch:
    """Selects the executions of one repository that retention has not dropped.

    If `branch` is None, they are those of all branches.
    """

    routing: str
    retention: Retention
    branch: str | None

    def query(self, clause: Mapping[str, Any]) -> dict[str, Any]:
        filters = [{"term": {"repository_id": self.routing}}, clause]
        if self.branch is not None:
            filters.append({"term": {"branch": self.branch}})
        return {"bool": {"filter": filters, "must_not": self.retention.hidden(TIME)}}


async def count_executions(
    cluster: Cluster, observed: ObservedBranch, tests: Collection[str]
) -> dict[str, int]:
    """Return the number of executions by test; tests without any are left out."""
    counts: dict[str, int] = {}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        observed.query({"terms": {"test_id": list(tests)}}),
        ("test_id",),
        size=_BUCKETS_A_PAGE,
        routing=observed.routing,
    ):
        for bucket in buckets:
            counts[bucket["key"]["test_id"]] = bucket["doc_count"]
    return counts


def split_into_portions(tests: Sequence[str], counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Split the tests so that the executions of each portion fit into memory.

    A single test with more executions is a portion of its own.
    """
    portion: list[str] = []
    size = 0
    for test in tests:
        executions = counts.get(test, 0)
        if portion and size + executions > _EXECUTIONS_AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(test)
        size += executions
    if portion:
        yield portion


async def read_all(
    cluster: Cluster,
    observed: ObservedBranch,
    tests: Collection[str],
    until: datetime | None = None,
) -> dict[str, list[OnBranch]]:
    """Return the executions of each test; with `until`, only those that finished by then."""
    latest = None if until is None else to_microseconds(until)
    found: dict[str, list[OnBranch]] = {test: [] for test in tests}
    for seen in await _read(cluster, observed, clauses_between(dict.fromkeys(tests), latest)):
        found[seen.test_id].append(seen)
    return found


async def read_since(
    cluster: Cluster, observed: ObservedBranch, moments: Mapping[str, int]
) -> dict[str, list[OnBranch]]:
    """Return the executions of each test since its moment, which is in microseconds."""
    found: dict[str, list[OnBranch]] = {test: [] for test in moments}
    for seen in await _read(cluster, observed, clauses_between(moments)):
        found[seen.test_id].append(seen)
    return found


async def _read(
    cluster: Cluster, observed: ObservedBranch, clauses: Iterable[Clause]
) -> list[OnBranch]:
    """Return all executions that match any of the clauses."""
    sources: list[Mapping[str, Any]] = []
    for request in requests_of(clauses):
        body = {
            "size": _ROWS_A_PAGE,
            "query": observed.query({"bool": {"should": request}}),
            "sort": [{TIME: "asc"}, {"execution_id": "asc"}],
            "_source": list(_FIELDS),
        }
        async for hits in scan(
            cluster.connection, cluster.layout.executions, body, routing=observed.routing
        ):
            sources += (hit["_source"] for hit in hits)
    failed = await find_failed(cluster, observed.routing, {source["run"] for source in sources})
    # Converting thousands of rows would block the event loop.
    return await asyncio.to_thread(_observe, sources, failed)


def _observe(sources: Sequence[Mapping[str, Any]], failed: Collection[str]) -> list[OnBranch]:
    """Convert rows; equal metadata is shared, which saves time and memory."""
    known: dict[tuple[Any, ...], TestMetadata] = {}
    found: list[OnBranch] = []
    for source in sources:
        fields = tuple([source.get(field) for field in METADATA_FIELDS])
        metadata = known.get(fields)
        if metadata is None:
            metadata = known[fields] = TestMetadata(*fields)
        seen = Observation(
            source["pipeline_name"],
            source["job_name"],
            source["commit"],
            _CONCLUSIONS[source["conclusion"]],
            source[TIME],
            source["needed_retries"],
            source["run"] in failed,
            pull_of(source.get("pull")),
            metadata,
            source.get("duration"),
        )
        found.append(
            OnBranch(short_id(source["execution_id"]), source["test_id"], source["branch"], seen)
        )
    return found
