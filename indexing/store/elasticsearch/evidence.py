"""Finds the newest evidence against a test, for quarantines that end."""

from __future__ import annotations

import uuid
from collections.abc import Container, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

from indexing.health.judged_jobs import has_room
from indexing.health.rollups import Job
from indexing.health.window import day_number, start_of_window
from indexing.models.executions import Conclusion
from indexing.names import RepositoryName
from indexing.quarantine.decision import find_evidence
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.derived.observations import ObservedBranch
from indexing.store.elasticsearch.derived.runs import find_failed
from indexing.store.elasticsearch.derived.stored_markers import names_test
from indexing.store.elasticsearch.repositories import read_repository
from indexing.store.elasticsearch.stored_rollups import derive_from_rollups
from indexing.store.elasticsearch.tests import test_of
from indexing.timestamps import from_microseconds

_ROWS_A_PAGE: Final = 2_000
_FIELDS: Final = (FINISHED_AT, "conclusion", "needed_retries", "run", "pipeline_name", "job_name")


async def find_last_evidence(
    cluster: Cluster, repository: RepositoryName, test_id: uuid.UUID
) -> datetime | None:
    """Return when the newest evidence against a test on the default branch finished.

    `None` if there is no evidence. It is in the roll-ups of the test, unless the test is stale.

    Raises:
        StoreUnavailableError: the test is stale, and too many expensive searches wait.
    """
    stored = (await read_repository(cluster, repository)).repository
    routing = routing_of(repository)
    # In this order: a refresh that ends meanwhile has written the test before it drops its marker.
    is_stale = await names_test(cluster, routing, str(test_id))
    place = Place(cluster.layout.tests, str(test_id), routing)
    (found,) = await cluster.connection.get_many([place])
    if found is None:
        return None
    if is_stale:
        judged = test_of(found.source).judged_jobs_on(stored.default_branch)
        retention = (await cluster.control.read()).retention
        observed = ObservedBranch(routing, retention, stored.default_branch)
        only = None if has_room(len(judged)) else judged
        return await _search_evidence(cluster, observed, test_id, only)
    evidence = await derive_from_rollups(
        cluster, stored, found.source, lambda rollups: find_evidence(rollups.values())
    )
    return None if evidence is None else evidence.last_at


async def _search_evidence(
    cluster: Cluster,
    observed: ObservedBranch,
    test_id: uuid.UUID,
    judged: Container[Job] | None,
) -> datetime | None:
    """Return the same as `find_evidence`, by the executions, the newest first.

    If the test has too many jobs, only the `judged` ones count.
    """
    await cluster.connection.refresh(cluster.layout.executions)
    body = {
        "size": _ROWS_A_PAGE,
        "query": observed.query({"term": {"test_id": str(test_id)}}),
        "sort": [{FINISHED_AT: "desc"}, {"execution_id": "desc"}],
        "_source": list(_FIELDS),
    }
    start: int | None = None
    scanning = scan(
        cluster.connection,
        cluster.layout.executions,
        body,
        routing=observed.routing,
        # Many requests at once would read more than a node and this process can take.
        take_turn=cluster.searches.slot,
    )
    async with aclosing(scanning) as pages:
        async for hits in pages:
            rows = [
                hit["_source"]
                for hit in hits
                if judged is None or _job_of(hit["_source"]) in judged
            ]
            if not rows:
                continue
            start = start_of_window(rows[0][FINISHED_AT]) if start is None else start
            within = [row for row in rows if day_number(row[FINISHED_AT]) >= start]
            last_at = await _find_in(cluster, observed.routing, within)
            if last_at is not None:
                return from_microseconds(last_at)
            if len(within) < len(rows):
                break
    return None


async def _find_in(cluster: Cluster, routing: str, rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Return when the first of these executions that is evidence finished."""
    bad = [row for row in rows if _is_untrusted(row)]
    if not bad:
        return None
    # A run that failed as a whole says nothing about its tests.
    failed = await find_failed(cluster, routing, {row["run"] for row in bad})
    return next((row[FINISHED_AT] for row in bad if row["run"] not in failed), None)


def _job_of(row: Mapping[str, Any]) -> Job:
    return row["pipeline_name"], row["job_name"]


def _is_untrusted(row: Mapping[str, Any]) -> bool:
    conclusion = row["conclusion"]
    retried = conclusion == Conclusion.PASSED and row["needed_retries"]
    return bool(conclusion == Conclusion.FAILED or retried)
