"""Reads events in the order of arrival: by the time stamp that the writer adds to each event.

No sequence orders the writes of several processes. So readers wait until stamps are settled: they
read only events that were stamped at least `SETTLING_SECONDS` ago.

A write may be slow, so that its events become searchable later than half of that time after their
stamp. The writer then writes them again with a new stamp, which lies in the future, because the
second write is probably slow too.

So readers miss no event as long as the clocks of the processes differ by less than the other half.
They may see an event twice that was written again. One gap is left: if the process is killed or the
cluster fails between a slow write and the second one, readers may have passed the first stamp.

A reader's position was settled when it was read. If it is not settled any more, the clock was put
back. The reader then starts again from what is settled, because new events have earlier stamps than
its position.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from indexing.errors import StoreError
from indexing.models.arrivals import MOST_BYTES, Arrival, ArrivalKey, Arrivals
from indexing.models.paging import take_fitting
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.yielding import LoopYielder

T = TypeVar("T")

STAMP: Final = "arrived_at"
SETTLING_SECONDS: Final = 3.0
# How far in the future the stamp of a repeated write lies: this many times as long as the write
# before it took.
_AHEAD: Final = 2
# Repeated writes of the same events. More than one is needed only if the cluster gets slower each
# time.
_ATTEMPTS: Final = 4

# How many events the first request of a read asks for, and the most that each further one asks for.
# A response is held as a whole, and what does not fit is read again.
_FIRST_EVENTS: Final = 8
_MORE_EVENTS: Final = 50

_log = logging.getLogger(__name__)


class Sent(NamedTuple):
    """A write of an event, and its outcome."""

    operation: Operation
    outcome: Outcome | StoreError


async def send_stamped(
    cluster: Cluster, events: Sequence[T], operation_of: Callable[[T, int], Operation]
) -> list[Sent]:
    """Write new events in order and make them visible.

    `operation_of` makes the write of an event with its stamp.

    Raises:
        StoreUnavailableError: the cluster does not answer.
    """
    began, stamped = time.monotonic(), _now()
    operations = await _stamp(events, operation_of, stamped)
    outcomes = await cluster.slices.send_each(operations)
    sent = list(map(Sent, operations, outcomes))
    # This includes events that exist already: another call may have just written them, and they may
    # not be visible yet.
    there = [operation for operation, outcome in sent if _is_there(outcome)]
    await bulk.make_visible(cluster.connection, there)
    written = [event for event, outcome in zip(events, outcomes, strict=True) if _is_done(outcome)]
    if not _is_in_time(stamped):
        written += await _find_written(cluster, events, sent)
    for _ in range(_ATTEMPTS):
        if not written or _is_in_time(stamped):
            return sent
        took, began = time.monotonic() - began, time.monotonic()
        stamped = _now() + int(_AHEAD * took * 1_000_000)
        again = [
            replace(each, action="index", guard=None)
            for each in await _stamp(written, operation_of, stamped)
        ]
        # Retention may delete a slice meanwhile.
        await bulk.send(cluster.connection, again, visible=True, may_be_gone=True)
    if not _is_in_time(stamped):
        _log.warning("the cluster is so slow that streams may miss %d events", len(written))
    return sent


def _is_there(outcome: Outcome | StoreError) -> bool:
    """Return whether the event exists, whoever has written it."""
    return isinstance(outcome, Outcome) and not outcome.failed


def _is_done(outcome: Outcome | StoreError) -> bool:
    return isinstance(outcome, Outcome) and outcome.done


async def _find_written(cluster: Cluster, events: Sequence[T], sent: Sequence[Sent]) -> list[T]:
    """Return the events whose ids exist because this very call has written them.

    If the response to a request is lost, it is sent again, and conflicts with itself.
    """
    existing = [
        (event, operation)
        for event, (operation, outcome) in zip(events, sent, strict=True)
        if isinstance(outcome, Outcome) and outcome.conflicts
    ]
    places = [Place(each.index, each.id, each.routing, (STAMP,)) for _, each in existing]
    found = await cluster.connection.get_many(places, may_be_gone=True, timeouts=WRITING)
    return [
        event
        for (event, operation), stored in zip(existing, found, strict=True)
        if stored is not None and stored.source.get(STAMP) == (operation.source or {})[STAMP]
    ]


def _is_in_time(stamped: int) -> bool:
    """Return whether an event that is visible now came before readers passed its stamp."""
    return _now() - stamped < SETTLING_SECONDS / 2 * 1_000_000


async def _stamp(
    events: Sequence[T], operation_of: Callable[[T, int], Operation], first: int
) -> list[Operation]:
    operations: list[Operation] = []
    yielder = LoopYielder()
    for number, event in enumerate(events):
        operations.append(operation_of(event, first + number))
        await yielder.yield_if_due()
    return operations


def find_newest() -> ArrivalKey:
    """Return the position up to which events are settled.

    An event that is being written was stamped before now, but cannot be read yet.
    """
    return ArrivalKey(_settled())


async def list_arrivals(
    cluster: Cluster, after: ArrivalKey, limit: int, among: Collection[RepositoryName] | None
) -> Arrivals:
    settled = _settled()
    if after.sequence > settled:
        return Arrivals((), ArrivalKey(settled), is_all=False)
    retention = await cluster.control.read_retention()
    filters: list[dict[str, Any]] = [{"range": {STAMP: {"gte": after.sequence, "lte": settled}}}]
    routing: str | None = None
    if among is not None:
        routings = [*map(routing_of, among)]
        filters.append({"terms": {"repository_id": routings}})
        if len(routings) == 1:
            (routing,) = routings
    query = {"bool": {"filter": filters, "must_not": retention.hidden("received_at")}}

    async def read(start: ArrivalKey, size: int) -> list[Arrival]:
        body = {
            "size": size,
            "query": query,
            "sort": [{STAMP: "asc"}, {"received_at": "asc"}, {"id": "asc"}],
            "search_after": list(start),
            "track_total_hits": False,
            "_source": ["repository_id", "type", "body"],
        }
        answer = await cluster.connection.search(cluster.layout.events, body, routing=routing)
        return [_arrival_of(hit) for hit in answer["hits"]["hits"]]

    asked = min(limit, _FIRST_EVENTS)
    found = await read(after, asked)
    while len(found) == asked < limit:
        size = sum(len(row.body) for row in found)
        # As many as fit if they are as long as those before them.
        fitting = (MOST_BYTES - size) * asked // max(size, 1)
        more = min(limit - asked, _MORE_EVENTS, fitting)
        if more <= 0:
            break
        found += await read(found[-1].key, more)
        asked += more
    rows, fit = take_fitting(found, MOST_BYTES)
    is_all = fit and len(rows) < asked
    until = max(ArrivalKey(settled), after, *(row.key for row in rows)) if is_all else rows[-1].key
    return Arrivals(rows, until, is_all)


def _arrival_of(hit: Any) -> Arrival:
    source = hit["_source"]
    return Arrival(
        ArrivalKey(*hit["sort"]),
        bytes.fromhex(source["repository_id"]),
        source["type"],
        source["body"].encode(),
    )


def _settled() -> int:
    return _now() - int(SETTLING_SECONDS * 1_000_000)


def _now() -> int:
    return time.time_ns() // 1_000
