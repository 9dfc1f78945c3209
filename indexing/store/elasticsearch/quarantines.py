"""Reads quarantines, and begins and ends them on request."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from indexing.identifiers import derive_test_id
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    MAX_QUARANTINES,
    MAX_QUARANTINES_PER_TEST,
    Actor,
    AddedQuarantine,
    ChangeAction,
    Quarantine,
    QuarantineKey,
    QuarantineQuery,
    QuarantineRequest,
    QuarantineSource,
)
from indexing.names import RepositoryName
from indexing.quarantine.changes import too_many_of_test, too_many_quarantines
from indexing.store.elasticsearch import quarantine_changes
from indexing.store.elasticsearch.client import paging
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.recovery import judge_recovery
from indexing.store.elasticsearch.evidence import find_last_evidence
from indexing.store.elasticsearch.quarantine_query import in_force, keep_covering
from indexing.store.elasticsearch.quarantine_slots import (
    QUARANTINE_FIELDS,
    QuarantineSlot,
    Record,
    quarantine_of,
    read_slots,
    slot_of,
    write_slot,
)
from indexing.store.elasticsearch.repositories import make_known
from indexing.timestamps import from_microseconds, to_microseconds

_ORDER: Final = ("created_at", "quarantine_id")

# A list that may be longer than this waits for its turn. Names have up to 8,000 bytes.
_FEW: Final = 200


async def list_quarantines(
    cluster: Cluster,
    query: QuarantineQuery,
    anchor: Anchor[QuarantineKey],
    limit: int | None,
) -> Page[Quarantine]:
    beside = None
    if anchor.key is not None:
        values = (to_microseconds(anchor.key.created_at), str(anchor.key.id))
        beside = paging.Beside(values, {"term": {"quarantine_id": values[1]}})
    branch, routing = query.branch, routing_of(query.repository)
    read = partial(
        paging.read_page,
        cluster.connection,
        paging.List(
            index=cluster.layout.quarantines,
            routing=routing,
            query=_query_of(query),
            order=_ORDER,
            ascending=True,
            fields=QUARANTINE_FIELDS,
        ),
        _row_of,
        beside=beside,
        backward=anchor.backward,
        limit=limit,
        keep=None if branch is None else partial(_keep_applying, branch),
    )
    with suppress(paging.SurplusError):
        combined = (cluster.combined_reads, (QuarantineQuery, routing))
        page, _ = await read(combined=combined, only=_FEW)
        return page
    # Names may be long: many lists at once would take too much memory, and all threads of a node.
    async with cluster.searches.slot():
        page, _ = await read()
    return page


async def _keep_applying(branch: str, hits: Sequence[Hit]) -> list[Hit]:
    return await keep_covering(hits, lambda hit: hit["_source"]["branch"], branch)


async def get_quarantine(
    cluster: Cluster, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
) -> Quarantine | None:
    slot = await _find(cluster, repository, quarantine_id, now)
    return None if slot is None else slot.quarantine


async def find_next_expiry(
    cluster: Cluster, repository: RepositoryName, now: datetime
) -> datetime | None:
    routing = routing_of(repository)
    expires = {"exists": {"field": "expires_at"}}
    answer = await cluster.connection.search(
        cluster.layout.quarantines,
        {
            "size": 1,
            "query": {"bool": {"filter": [_query_of(QuarantineQuery(repository, now)), expires]}},
            "sort": [{"expires_at": "asc"}],
            "track_total_hits": False,
            "_source": False,
        },
        routing=routing,
    )
    hits = answer["hits"]["hits"]
    return from_microseconds(hits[0]["sort"][0]) if hits else None


async def add_quarantine(
    cluster: Cluster, repository: RepositoryName, request: QuarantineRequest, now: datetime
) -> AddedQuarantine:
    known = (await make_known(cluster, repository)).repository.name
    unknown = QuarantineSlot(
        routing_of(known),
        derive_test_id(known, request.test_name),
        request.test_name,
        request.branch,
    )
    while True:
        (slot,) = await read_slots(cluster, [unknown])
        # An expired record has ended: quarantining the test again begins a new one.
        slot = slot.expired_by(now)
        before = slot.record
        is_manual = before is not None and before.source is QuarantineSource.MANUAL
        if request.source is QuarantineSource.MANUAL and not is_manual:
            await _check_room(cluster, known, slot.test_id, now)
        slot = slot.holding(_requested(before, request, now))
        # A person's request ends the judgement by the rules, which is no change by itself.
        if before is None or slot.record != replace(before, judged_until=None):
            action = ChangeAction.ADDED if before is None else ChangeAction.UPDATED
            slot = slot.changed(action, now, request.actor)
        if before is None or before.recovery is None:
            # Loads keep the recovery of a quarantine in force up to date.
            (slot,) = await judge_recovery(
                cluster, slot.routing, [slot], take_turn=cluster.searches.slot
            )
        try:
            await write_slot(cluster, slot)
        except ConflictError:
            continue
        await quarantine_changes.complete(cluster, [slot])
        return AddedQuarantine(_row(slot), is_new=before is None)


async def remove_quarantine(
    cluster: Cluster,
    repository: RepositoryName,
    quarantine_id: uuid.UUID,
    now: datetime,
    actor: Actor,
) -> bool:
    while True:
        slot = await _find(cluster, repository, quarantine_id, now)
        if slot is None:
            return False
        evidence = await find_last_evidence(cluster, repository, slot.test_id)
        slot = slot.changed(ChangeAction.REMOVED, now, actor).ended_with(evidence)
        try:
            await write_slot(cluster, slot)
        except ConflictError:
            continue
        await quarantine_changes.complete(cluster, [slot])
        return True


async def _check_room(
    cluster: Cluster, repository: RepositoryName, test_id: uuid.UUID, now: datetime
) -> None:
    """Raise if people made too many quarantines, in the repository or of the test."""
    manual = QuarantineQuery(repository, now, source=QuarantineSource.MANUAL)
    if await _count(cluster, replace(manual, test_id=test_id)) >= MAX_QUARANTINES_PER_TEST:
        raise too_many_of_test()
    if await _count(cluster, manual) >= MAX_QUARANTINES:
        raise too_many_quarantines()


async def _count(cluster: Cluster, query: QuarantineQuery) -> int:
    return await cluster.connection.count(
        cluster.layout.quarantines, _query_of(query), routing=routing_of(query.repository)
    )


def _requested(current: Record | None, request: QuarantineRequest, now: datetime) -> Record:
    if current is None:
        return Record(
            id=uuid.uuid4(),
            reason=request.reason,
            source=request.source,
            created_at=now,
            owner=request.owner,
            expires_at=request.expires_at,
        )
    if current.source is QuarantineSource.MANUAL and request.source is QuarantineSource.AUTO:
        # The rules must not change a decision of a person.
        return current
    return current.taken_over_by(request)


async def _find(
    cluster: Cluster, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
) -> QuarantineSlot | None:
    """Return the slot of that quarantine if it is in force at `now`."""
    routing = routing_of(repository)
    query = QuarantineQuery(repository, now)
    found = {"term": {"quarantine_id": str(quarantine_id)}}
    answer = await cluster.connection.search(
        cluster.layout.quarantines,
        {"size": 1, "query": {"bool": {"filter": [_query_of(query), found]}}, "_source": False},
        routing=routing,
    )
    for hit in answer["hits"]["hits"]:
        document = await cluster.connection.get(
            cluster.layout.quarantines, hit["_id"], routing=routing
        )
        slot = None if document is None else slot_of(document).expired_by(now)
        if slot is not None and slot.record is not None and slot.record.id == quarantine_id:
            return slot
    return None


def _query_of(query: QuarantineQuery) -> dict[str, Any]:
    filters = [{"term": {"repository_id": routing_of(query.repository)}}]
    if query.test_id is not None:
        filters.append({"term": {"test_id": str(query.test_id)}})
    if query.source is not None:
        filters.append({"term": {"source": query.source.value}})
    return in_force(query.now, *filters)


def _row_of(hit: Hit) -> Quarantine:
    return quarantine_of(hit["_source"])


def _row(slot: QuarantineSlot) -> Quarantine:
    quarantine = slot.quarantine
    if quarantine is None:
        raise LookupError("the slot holds no quarantine")
    return quarantine
