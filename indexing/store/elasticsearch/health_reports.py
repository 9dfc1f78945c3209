"""Reads the stored roll-ups of one test, and reports why it is healthy, flaky or broken."""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from typing import Final

from indexing.health.reports import report_health
from indexing.health.rollup_text import read_rollup
from indexing.health.rollups import Rollup
from indexing.health.rules import Job, build_rollups
from indexing.models.health_reports import HealthReport
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived import observations
from indexing.store.elasticsearch.repositories import find_repository
from indexing.store.elasticsearch.tests import JobRollup, test_of

# More roll-ups than this are parsed in a thread, because that would block the event loop.
_QUICK_JOBS: Final = 50


async def get_health(
    cluster: Cluster, repository: RepositoryName, test_id: uuid.UUID
) -> HealthReport | None:
    settings = await find_repository(cluster, repository)
    routing = routing_of(repository)
    place = Place(cluster.layout.tests, str(test_id), routing)
    (found,) = await cluster.connection.get_many([place])
    if settings is None or found is None or found.source["repository_id"] != routing:
        return None
    test = test_of(found.source)
    report = partial(report_health, flaky_detection=settings.flaky_detection)
    if test.rollups is None:
        # The test was stored by an earlier release, without roll-ups.
        return report(await _compute(cluster, routing, settings.default_branch, str(test_id)))
    stored = test.rollups if test.branch == settings.default_branch else ()
    if len(stored) <= _QUICK_JOBS:
        return report(_read(stored))
    return await asyncio.to_thread(lambda: report(_read(stored)))


async def _compute(cluster: Cluster, routing: str, branch: str, test_id: str) -> dict[Job, Rollup]:
    retention = await cluster.control.read_retention()
    observed = observations.ObservedBranch(routing, retention, branch)
    seen = await observations.read_all(cluster, observed, [test_id])
    # Thousands of executions would block the event loop.
    return await asyncio.to_thread(build_rollups, [each.observation for each in seen[test_id]])


def _read(stored: tuple[JobRollup, ...]) -> dict[Job, Rollup]:
    found = {
        (each.pipeline_name, each.job_name): read_rollup(each.text.encode()) for each in stored
    }
    return {job: rollup for job, rollup in found.items() if rollup is not None}
