"""Reads the stored roll-ups of one test, and reports why it is healthy, flaky or broken."""

from __future__ import annotations

import uuid
from functools import partial

from indexing.health.reports import report_health
from indexing.models.health_reports import HealthReport
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.repositories import find_repository
from indexing.store.elasticsearch.stored_rollups import derive_from_rollups


async def get_health(
    cluster: Cluster, repository: RepositoryName, test_id: uuid.UUID
) -> HealthReport | None:
    settings = await find_repository(cluster, repository)
    routing = routing_of(repository)
    place = Place(cluster.layout.tests, str(test_id), routing)
    (found,) = await cluster.connection.get_many([place])
    if settings is None or found is None or found.source["repository_id"] != routing:
        return None
    report = partial(report_health, flaky_detection=settings.flaky_detection)
    return await derive_from_rollups(cluster, settings, found.source, report)
