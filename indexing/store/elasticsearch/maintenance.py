"""Maintenance of the whole store: status counts, pruning and rebuilding."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from indexing.health.window import day_number, day_of
from indexing.store.elasticsearch import event_days, repositories
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.concurrency import run_both
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived import dirty_markers, run_counts, stored_markers
from indexing.store.elasticsearch.derived.dirty_markers import MarkedTests
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.derived.past_days import PAST, keep_days, prune_days
from indexing.store.elasticsearch.derived.refresh import refresh_tests
from indexing.store.elasticsearch.event_query import RECEIVED_AT
from indexing.store.elasticsearch.indices.control import advance, read_layout_version
from indexing.store.elasticsearch.indices.existing import delete_index, list_indices
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.indices.slices import ends_before
from indexing.store.elasticsearch.outbox import prune_outbox
from indexing.store.elasticsearch.quarantine_changes import prune_changes, prune_expiries
from indexing.store.elasticsearch.quarantine_query import in_force
from indexing.store.elasticsearch.search_generations import begin_generation, end_generation
from indexing.store.interface import PruneCount, Steps, StoreStatus
from indexing.timestamps import to_microseconds

_ROWS_A_PAGE: Final = 5_000


async def get_status(cluster: Cluster, now: datetime) -> StoreStatus:
    count = cluster.connection.count
    layout = cluster.layout
    await cluster.connection.refresh(f"{layout.prefix}-*")
    retention = (await cluster.control.read()).retention
    return StoreStatus(
        backend="elasticsearch",
        version=await read_layout_version(cluster.connection, layout),
        known_version=LAYOUT_VERSION,
        repositories=await count(layout.control, {"term": {"kind": repositories.KIND}}),
        events=await count(layout.events, _visible(retention, RECEIVED_AT)),
        tests=await count(layout.tests),
        identities=await count(layout.identities),
        executions=await count(layout.executions, _visible(retention, FINISHED_AT)),
        quarantines=await count(layout.quarantines, in_force(now)),
        stale_tests=await stored_markers.count_stale(cluster),
    )


async def prune(
    cluster: Cluster,
    before: datetime,
    now: datetime,
    progress: Steps | None,
    rollups_before: datetime | None,
) -> PruneCount:
    layout = cluster.layout
    await cluster.connection.refresh(f"{layout.events},{layout.executions}")
    retention = (await cluster.control.read()).retention
    until = to_microseconds(before)
    going_events = _going(retention, RECEIVED_AT, until)
    going_executions = _going(retention, FINISHED_AT, until)
    count = PruneCount(
        await cluster.connection.count(layout.events, going_events),
        await cluster.connection.count(layout.executions, going_executions),
    )
    # What is dropped has to be judged first, and days that lose executions become final. As late as
    # possible, because old results that arrive after this may be dropped without being judged.
    await refresh_tests(cluster, now)
    await cluster.connection.refresh(f"{layout.executions},{layout.quarantines}")
    touched = await _find_touched(cluster, going_executions)
    await _make_final(cluster, touched)
    await keep_days(cluster, retention.final_day, day_number(until))
    # Before the change: afterwards it is unknown which tests had the dropped executions. But not
    # long before, because other refreshes compute marked tests from all of their executions.
    marked = [
        each
        for routing, tests in touched.items()
        for each in await dirty_markers.mark_before(cluster, routing, tests, later=True)
    ]
    await cluster.control.change(lambda state: advance(state, until))
    marked += await _mark_late(cluster, going_executions, retention, touched)
    await _drop_slices(cluster, layout.events, before)
    await _drop_slices(cluster, layout.executions, before)
    await _drop_runs(cluster, until)
    await run_counts.drop_before(cluster, until)
    await prune_days(cluster, event_days.KIND, day_number(until) + 1)
    await prune_changes(cluster, until)
    await prune_expiries(cluster, until, now)
    await prune_outbox(cluster, until)
    if rollups_before is not None:
        await prune_days(cluster, PAST, day_of(min(before, rollups_before)))
    await dirty_markers.mark_after(cluster, marked)
    await refresh_tests(cluster, now, progress)
    return count


async def rebuild(cluster: Cluster, now: datetime, progress: Steps | None) -> int:
    """Fill a new generation of the identity index while readers use the old one; then swap them."""
    generation = uuid.uuid4().hex[:12]
    # A cluster takes most of the time of a new index to write its state, so count runs meanwhile.
    serving, _ = await run_both(begin_generation(cluster, generation), _count_runs(cluster))
    # Only now list the repositories that the new generation needs: any later one is written to it.
    for routing in await _list_routings(cluster):
        await dirty_markers.mark_repository(cluster, routing, later=True)
    filled = frozenset({cluster.layout.identities_of(generation)})
    count = await refresh_tests(replace(cluster, unread=filled), now, progress)
    await end_generation(cluster, generation, serving)
    return count


async def _count_runs(cluster: Cluster) -> None:
    for routing in await _list_routings(cluster):
        await run_counts.count_repository(cluster, routing)


def _visible(retention: Retention, field: str) -> dict[str, Any]:
    return {"bool": {"must_not": retention.hidden(field)}}


def _going(retention: Retention, field: str, until: int) -> dict[str, Any]:
    """Return the query for rows that are visible now and older than `until`."""
    old = {"range": {field: {"lt": until}}}
    return {"bool": {"filter": [old], "must_not": retention.hidden(field)}}


async def _find_touched(cluster: Cluster, going: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the tests of these executions by routing."""
    touched: dict[str, list[str]] = {}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        going,
        ("repository_id", "test_id"),
        size=_ROWS_A_PAGE,
    ):
        for bucket in buckets:
            key = bucket["key"]
            touched.setdefault(key["repository_id"], []).append(key["test_id"])
    return touched


async def _mark_late(
    cluster: Cluster,
    going: Mapping[str, Any],
    retention: Retention,
    touched: Mapping[str, Collection[str]],
) -> list[MarkedTests]:
    """Mark the other tests of dropped executions: these arrived after the search for `touched`.

    `retention` are the marks before this run. A load may have judged these executions, and nothing
    else would judge their tests without them.
    """
    await cluster.connection.refresh(cluster.layout.executions)
    late = {"range": {"epoch": {"gte": retention.epoch}}}
    found = await _find_touched(cluster, {"bool": {"filter": [going, late]}})
    others = {
        routing: new
        for routing, tests in found.items()
        if (new := set(tests).difference(touched.get(routing, ())))
    }
    await _make_final(cluster, others)
    return [
        each
        for routing, tests in others.items()
        for each in await dirty_markers.mark_before(cluster, routing, sorted(tests), later=True)
    ]


async def _make_final(cluster: Cluster, touched: Mapping[str, Collection[str]]) -> None:
    """Make automatic quarantines of these tests final, because their evidence is being dropped."""
    for routing, tests in touched.items():
        gone = frozenset(tests)
        # Another process may write a slot after it was read; then it is read again.
        while not await _try_make_final(cluster, routing, gone):
            pass


async def _try_make_final(cluster: Cluster, routing: str, tests: Collection[str]) -> bool:
    """Make the automatic quarantines of these tests final; return whether all of them are."""
    filters = [{"term": {"repository_id": routing}}, {"exists": {"field": "judged_until"}}]
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"scope": "asc"}],
        "seq_no_primary_term": True,
    }
    are_final = True
    async for hits in scan(cluster.connection, cluster.layout.quarantines, body, routing=routing):
        operations = [
            Operation(
                "index",
                cluster.layout.quarantines,
                hit["_id"],
                routing,
                hit["_source"] | {"judged_until": None},
                Version.of(hit).parameters,
            )
            for hit in hits
            if hit["_source"]["test_id"] in tests
        ]
        outcomes = await bulk.send(cluster.connection, operations, visible=True)
        are_final = are_final and not any(outcome.conflicts for outcome in outcomes)
    return are_final


async def _drop_slices(cluster: Cluster, pattern: str, before: datetime) -> None:
    names = [
        name
        for name in await list_indices(cluster.connection, pattern)
        if ends_before(name.removeprefix(pattern.rstrip("*")), before)
    ]
    if names:
        await cluster.control.drop_slices(names)
    for name in names:
        await delete_index(cluster.connection, name)


async def _drop_runs(cluster: Cluster, before: int) -> None:
    """Delete the documents of runs without executions.

    `last_at` may not include executions that arrived later, so this searches for them.
    """
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"range": {"last_at": {"lt": before}}},
        "sort": [{"last_at": "asc"}, {"run": "asc"}],
    }
    retention = (await cluster.control.read()).retention
    await cluster.connection.refresh(cluster.layout.runs)
    async for hits in scan(cluster.connection, cluster.layout.runs, body):
        kept = await _find_left(cluster, [hit["_id"] for hit in hits], retention)
        operations = [
            Operation("delete", cluster.layout.runs, hit["_id"], hit["_routing"])
            for hit in hits
            if hit["_id"] not in kept
        ]
        await bulk.send(cluster.connection, operations, visible=True)


async def _find_left(cluster: Cluster, runs: Sequence[str], retention: Retention) -> set[str]:
    """Return which of these runs still have executions."""
    body = {
        "size": 0,
        "track_total_hits": False,
        "query": {
            "bool": {
                "filter": [{"terms": {"run": list(runs)}}],
                "must_not": retention.hidden(FINISHED_AT),
            }
        },
        "aggs": {"runs": {"terms": {"field": "run", "size": _ROWS_A_PAGE}}},
    }
    answer = await cluster.connection.search(cluster.layout.executions, body, timeouts=WRITING)
    found = answer.get("aggregations", {}).get("runs", {"buckets": []})
    return {bucket["key"] for bucket in found["buckets"]}


async def _list_routings(cluster: Cluster) -> list[str]:
    """Return the routings of all repositories."""
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"term": {"kind": repositories.KIND}},
        "sort": [{"repository_id": "asc"}],
        "_source": ["repository_id"],
    }
    found: list[str] = []
    async for hits in scan(cluster.connection, cluster.layout.control, body):
        found += (hit["_source"]["repository_id"] for hit in hits)
    return found
