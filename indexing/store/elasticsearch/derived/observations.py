"""Reads the executions of tests, as observations for the health rules.

It reads all executions inside the window, and of the older ones only the oldest and newest failure
and the newest success. Where the verdict before the window matters too, it reads the older ones of
that job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from indexing.health.observations import Observation
from indexing.health.preceding import find_open_jobs
from indexing.health.window import window_start
from indexing.models.executions import Conclusion
from indexing.models.tests import METADATA_FIELDS, TestMetadata
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.observation_clauses import (
    TIME,
    Clause,
    JobSummaries,
    JobSummary,
    clauses_before,
    clauses_for_health,
    clauses_since,
    requests_of,
)
from indexing.store.elasticsearch.derived.runs import find_failed
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.pull_requests import pull_of
from indexing.timestamps import from_microseconds, to_microseconds

_BUCKETS_A_PAGE: Final = 2_000
_ROWS_A_PAGE: Final = 5_000

_FIELDS: Final = (
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
    *METADATA_FIELDS,
)


@dataclass(frozen=True, slots=True)
class OnBranch:
    """An observation with the id of its test and the branch that it ran on."""

    test_id: str
    branch: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class ObservedBranch:
    """Selects the executions of one repository, on one branch or on all, that are not dropped."""

    routing: str
    retention: Retention
    branch: str | None

    def query(self, clause: Mapping[str, Any]) -> dict[str, Any]:
        filters = [{"term": {"repository_id": self.routing}}, clause]
        if self.branch is not None:
            filters.append({"term": {"branch": self.branch}})
        return {"bool": {"filter": filters, "must_not": self.retention.hidden(TIME)}}


async def read_job_summaries(
    cluster: Cluster,
    observed: ObservedBranch,
    tests: Collection[str],
    until: datetime | None = None,
) -> JobSummaries:
    """Summarise the executions of these tests; only those that finished by `until`, if given."""
    clause: dict[str, Any] = {"terms": {"test_id": list(tests)}}
    if until is not None:
        ended = {"range": {TIME: {"lte": to_microseconds(until)}}}
        clause = {"bool": {"filter": [clause, ended]}}
    failed = {"term": {"conclusion": Conclusion.FAILED.value}}
    passed = {"term": {"conclusion": Conclusion.PASSED.value}}
    first, last = {"min": {"field": TIME}}, {"max": {"field": TIME}}
    summaries: dict[str, dict[tuple[str, str], JobSummary]] = {}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        observed.query(clause),
        ("test_id", "pipeline_name", "job_name"),
        size=_BUCKETS_A_PAGE,
        routing=observed.routing,
        within={
            "newest": last,
            "failed": {"filter": failed, "aggs": {"first": first, "last": last}},
            "passed": {"filter": passed, "aggs": {"last": last}},
        },
    ):
        for bucket in buckets:
            key = bucket["key"]
            summaries.setdefault(key["test_id"], {})[key["pipeline_name"], key["job_name"]] = (
                JobSummary(
                    bucket["doc_count"],
                    int(bucket["newest"]["value"]),
                    _whole(bucket["failed"]["first"]),
                    _whole(bucket["failed"]["last"]),
                    _whole(bucket["passed"]["last"]),
                )
            )
    return summaries


async def read_observations(
    cluster: Cluster,
    observed: ObservedBranch,
    summaries: JobSummaries,
    until: datetime | None = None,
) -> dict[str, list[Observation]]:
    """Return the executions that the health rules need, by test."""
    latest = None if until is None else to_microseconds(until)
    found: dict[str, list[Observation]] = {test: [] for test in summaries}
    for seen in await _read(cluster, observed, clauses_for_health(summaries, latest)):
        found[seen.test_id].append(seen.observation)
    further = await asyncio.to_thread(_find_further, found)
    for seen in await _read(cluster, observed, clauses_before(further)):
        found[seen.test_id].append(seen.observation)
    return found


def _find_further(
    found: Mapping[str, Sequence[Observation]],
) -> dict[tuple[str, str, str], int]:
    """Return the (test, pipeline, job) whose older executions are needed, and before what."""
    return {
        (test, *job): window_start(to_microseconds(max(seen.finished_at for seen in own)))
        for test, own in found.items()
        for job in find_open_jobs(own)
    }


async def read_since(
    cluster: Cluster, observed: ObservedBranch, moments: Mapping[str, int]
) -> dict[str, list[OnBranch]]:
    """Return all executions of each test from its moment on."""
    found: dict[str, list[OnBranch]] = {test: [] for test in moments}
    for seen in await _read(cluster, observed, clauses_since(moments)):
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
    return [
        OnBranch(source["test_id"], source["branch"], _observation_of(source, failed))
        for source in sources
    ]


def _observation_of(source: Mapping[str, Any], failed: Collection[str]) -> Observation:
    return Observation(
        pipeline_name=source["pipeline_name"],
        job_name=source["job_name"],
        commit=source["commit"],
        conclusion=Conclusion(source["conclusion"]),
        finished_at=from_microseconds(source[TIME]),
        needed_retries=source["needed_retries"],
        infrastructure_failure=source["run"] in failed,
        pull=pull_of(source["pull"]),
        metadata=TestMetadata(**{field: source[field] for field in METADATA_FIELDS}),
    )


def _whole(aggregation: Mapping[str, float | None]) -> int | None:
    value = aggregation["value"]
    return None if value is None else int(value)
