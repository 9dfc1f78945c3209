"""Writes the event log: concurrent small batches share one bulk request and one refresh.

A round writes the events of all waiting calls into slices that exist. Each call returns once its
events are durable and visible, exactly as without rounds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from indexing.errors import StoreError, StoreUnavailableError
from indexing.models.events import StoredEvent
from indexing.store.elasticsearch.arrivals import SETTLING_SECONDS, STAMP, Sent, send_stamped
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.rounds import Rounds
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import RECEIVED_AT
from indexing.store.elasticsearch.events import document_id
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.indices.slices import slice_of
from indexing.store.elasticsearch.repositories import find_unknown, unknown_repository
from indexing.store.interface import EventOutcome
from indexing.store.pace import Pace
from indexing.timestamps import to_microseconds

# Two rounds, so that one is written while the other one is being made visible.
_ROUNDS_AT_ONCE: Final = 2
# The size in bytes from which a batch is written alone: single events may be as large as a request.
_SMALL_BYTES: Final = 64 * 1024

# The time that a large write should take: after twice as long its events are stamped and written
# again, so that streams do not miss them.
_LARGE_WRITE_SECONDS: Final = SETTLING_SECONDS / 4
# How many events a large write has. Each write is made visible by a refresh, which takes a node
# longer than a thousand events.
_FIRST_EVENTS: Final = 2_000
_LEAST_EVENTS: Final = 100
_MOST_EVENTS: Final = 4_000

# How often an event that retention has dropped is written, if other calls write it too.
_ATTEMPTS: Final = 4

_log = logging.getLogger(__name__)


class EventWriter:
    """Writes batches of events; combines small ones of concurrent calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rounds: Rounds[Sequence[StoredEvent], list[EventOutcome]] = Rounds(
            partial(_write_calls, cluster), most=SMALL_WRITE, at_once=_ROUNDS_AT_ONCE
        )
        self._pace = Pace(_LARGE_WRITE_SECONDS, _FIRST_EVENTS, _LEAST_EVENTS, _MOST_EVENTS)

    async def write(self, events: Sequence[StoredEvent]) -> list[EventOutcome]:
        size = sum(len(event.body) for event in events)
        is_large = len(events) > SMALL_WRITE or size > _SMALL_BYTES
        # A new slice takes a node a moment, and a hundred old events may need one each: the calls
        # of a round must not wait for these.
        if is_large or not self._cluster.slices.are_known(map(self._index_of, events)):
            return await self._write_many(events)
        return await self._rounds.run(events, max(1, len(events)))

    def _index_of(self, event: StoredEvent) -> str:
        return self._cluster.layout.events_of(slice_of(event.key.received_at))

    async def _write_many(self, events: Sequence[StoredEvent]) -> list[EventOutcome]:
        outcomes: list[EventOutcome] = []
        while (done := len(outcomes)) < len(events):
            step = events[done : done + self._pace.rows]
            began = time.monotonic()
            outcomes += await write_events(self._cluster, step)
            self._pace.learn(len(step), time.monotonic() - began)
        return outcomes


async def write_events(cluster: Cluster, events: Sequence[StoredEvent]) -> list[EventOutcome]:
    (result,) = await _write_calls(cluster, [events])
    if isinstance(result, StoreError):
        raise result
    return result


async def _write_calls(
    cluster: Cluster, calls: Sequence[Sequence[StoredEvent]]
) -> list[list[EventOutcome] | StoreError]:
    """Write the batches of several calls with one bulk request and one refresh.

    Returns the outcomes or the error of each call; an error in one call does not affect the others.
    """
    names = {event.repository.key: event.repository for events in calls for event in events}
    state, unknown = await find_unknown(cluster, list(names.values()))
    results: dict[int, list[EventOutcome] | StoreError] = {}
    for number, events in enumerate(calls):
        missing = next((e.repository for e in events if e.repository.key in unknown), None)
        if missing is not None:
            results[number] = unknown_repository(missing)
    taken = [number for number in range(len(calls)) if number not in results]
    own = [event for number in taken for event in calls[number]]
    remaining = iter(await _send(cluster, own, state.retention.epoch))
    for number in taken:
        sent = [(event, next(remaining)) for event in calls[number]]
        try:
            results[number] = await _outcomes_of(cluster, sent, state.retention)
        except StoreError as error:
            results[number] = error
    return [results[number] for number in range(len(calls))]


async def _send(cluster: Cluster, events: Sequence[StoredEvent], epoch: int) -> list[Sent]:
    sent = await send_stamped(cluster, events, partial(_operation_of, cluster, epoch))
    refused = [o for _, o in sent if isinstance(o, Outcome) and o.refused]
    if refused:
        _log.warning("%d events are refused, the first one: %s", len(refused), refused[0].reason)
    return sent


async def _outcomes_of(
    cluster: Cluster, sent: Sequence[tuple[StoredEvent, Sent]], retention: Retention
) -> list[EventOutcome]:
    """Return the outcomes of one call, or raise its first failure."""
    outcomes = [EventOutcome.WRITTEN] * len(sent)
    existing: list[int] = []
    for number, (_, (operation, outcome)) in enumerate(sent):
        if isinstance(outcome, StoreError):
            raise outcome
        if outcome.conflicts:
            existing.append(number)
        elif outcome.refused:
            outcomes[number] = EventOutcome.REFUSED
        elif outcome.failed:
            raise outcome.failure(operation)
    compared = await _compare(cluster, [sent[number][0] for number in existing], retention)
    for number, compared_outcome in zip(existing, compared, strict=True):
        outcomes[number] = compared_outcome
    return outcomes


@dataclass(slots=True)
class _Existing:
    """An event whose id exists already, and its stored document, unless that was just deleted."""

    event: StoredEvent
    stored: Document | None = None
    outcome: EventOutcome = EventOutcome.WRITTEN


async def _compare(
    cluster: Cluster, events: Sequence[StoredEvent], retention: Retention
) -> list[EventOutcome]:
    """Return the outcomes for events whose ids exist already.

    Readers do not see what retention has dropped, so such an event is new, and replaces the stored
    one. Another call may do the same, or the event may be given twice. Then it is compared again.

    Raises:
        StoreUnavailableError: an event is written and dropped again and again.
    """
    existing = [_Existing(event) for event in events]
    waiting = existing
    for _ in range(_ATTEMPTS):
        dropped = await _find_dropped(cluster, waiting, retention)
        waiting = await _replace_stored(cluster, dropped, retention.epoch)
        if not waiting:
            return [each.outcome for each in existing]
    raise StoreUnavailableError("events are written and dropped again and again")


async def _find_dropped(
    cluster: Cluster, existing: Sequence[_Existing], retention: Retention
) -> list[_Existing]:
    """Compare events with the stored ones; return those that retention has dropped."""
    places = [_place_of(cluster, each.event) for each in existing]
    found = await cluster.connection.get_many(places, timeouts=WRITING)
    dropped: list[_Existing] = []
    for each, stored in zip(existing, found, strict=True):
        each.stored = stored
        if stored is None or retention.is_dropped(stored.source, RECEIVED_AT):
            dropped.append(each)
        else:
            same = stored.source["body"] == each.event.body.decode()
            each.outcome = EventOutcome.UNCHANGED if same else EventOutcome.CONFLICT
    return dropped


async def _replace_stored(
    cluster: Cluster, dropped: Sequence[_Existing], epoch: int
) -> list[_Existing]:
    """Write these events over the stored ones; return those that have changed meanwhile."""

    def replace_one(given: _Existing, stamp: int) -> Operation:
        operation = _operation_of(cluster, epoch, given.event, stamp)
        if given.stored is None:
            return operation
        return replace(operation, action="index", guard=given.stored.version.parameters)

    if not dropped:
        return []
    sent = await send_stamped(cluster, dropped, replace_one)
    for operation, outcome in sent:
        if isinstance(outcome, StoreError):
            raise outcome
        if outcome.failed:
            raise outcome.failure(operation)
    return [
        each
        for each, (_, outcome) in zip(dropped, sent, strict=True)
        if isinstance(outcome, Outcome) and outcome.conflicts
    ]


def _place_of(cluster: Cluster, event: StoredEvent) -> Place:
    index = cluster.layout.events_of(slice_of(event.key.received_at))
    return Place(index, document_id(event.repository, event.key), routing_of(event.repository))


def _operation_of(cluster: Cluster, epoch: int, event: StoredEvent, stamp: int) -> Operation:
    place = _place_of(cluster, event)
    document = make_document(event, epoch, stamp)
    return Operation("create", place.index, place.id, place.routing, document)


def make_document(event: StoredEvent, epoch: int, stamp: int) -> dict[str, Any]:
    """Return the document of an event; `epoch` is that of the retention, `stamp` its arrival."""
    return {
        "repository_id": routing_of(event.repository),
        RECEIVED_AT: to_microseconds(event.key.received_at),
        "id": event.key.id,
        "type": event.type,
        "pull_request": event.pull_request,
        "base_ref": event.base_ref,
        "trigger": event.searchable_trigger,
        "outcome": event.outcome.value,
        "epoch": epoch,
        "body": event.body.decode(),
        STAMP: stamp,
    }
