"""Finds the tests that are quarantined on the default branch, for the search to show and filter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from indexing.models.paging import Page
from indexing.models.tests import TestIdentity, TestQuery
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.concurrency import run_both
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.quarantine_query import in_force, keep_covering
from indexing.store.elasticsearch.repositories import find_repository

_SLOTS_A_PAGE: Final = 5_000


async def mark_quarantined(
    cluster: Cluster, query: TestQuery, page: Page[TestIdentity]
) -> Page[TestIdentity]:
    """Return the page with `is_quarantined` in the metrics of its rows."""
    tests = {str(row.test_id) for row in page.rows}
    if not tests:
        return page
    found = await find_quarantined(cluster, query.repository, query.now, tests)
    rows = tuple(
        row._replace(metrics=replace(row.metrics, is_quarantined=True))
        if row.metrics is not None and str(row.test_id) in found
        else row
        for row in page.rows
    )
    return replace(page, rows=rows)


async def find_quarantined(
    cluster: Cluster,
    repository: RepositoryName,
    now: datetime,
    among: Collection[str] | None = None,
) -> set[str]:
    """Return the ids of tests with a quarantine in force for the default branch.

    With `among`, only these tests are considered.
    """
    settings, slots = await run_both(
        find_repository(cluster, repository), _read_slots(cluster, repository, now, among)
    )
    if settings is None:
        return set()
    covering = await keep_covering(slots, itemgetter(1), settings.default_branch)
    return {test for test, _ in covering}


async def _read_slots(
    cluster: Cluster, repository: RepositoryName, now: datetime, among: Collection[str] | None
) -> list[tuple[str, str | None]]:
    routing = routing_of(repository)
    filters: list[dict[str, Any]] = [{"term": {"repository_id": routing}}]
    if among is not None:
        filters.append({"terms": {"test_id": sorted(among)}})
    body = {
        "size": _SLOTS_A_PAGE,
        "query": in_force(now, *filters),
        "sort": [{"created_at": "asc"}, {"quarantine_id": "asc"}],
        "_source": ["test_id", "branch"],
    }
    found: list[tuple[str, str | None]] = []
    async for hits in scan(
        cluster.connection, cluster.layout.quarantines, body, routing=routing, timeouts=None
    ):
        found += ((hit["_source"]["test_id"], hit["_source"]["branch"]) for hit in hits)
    return found
