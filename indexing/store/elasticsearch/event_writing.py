"""Writes the event log: concurrent small batches share one bulk request and one refresh.

A round writes the events of all waiting calls. Each call returns once its events are durable and
visible, exactly as without rounds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from indexing.errors import StoreError
from indexing.models.events import StoredEvent
from indexing.store.elasticsearch.arrivals import SETTLING_SECONDS, STAMP, Sent, send_stamped
from indexing.store.elasticsearch.client.bulk import Action, Operation, Outcome
from indexing.store.elasticsearch.client.connection import WRITING, Document
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.rounds import Rounds
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import TIME
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
        if len(events) > SMALL_WRITE or size > _SMALL_BYTES:
            return await self._write_many(events)
        return await self._rounds.run(events, max(1, len(events)))

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
    existing: list[Operation] = []
    for _, (operation, outcome) in sent:
        if isinstance(outcome, StoreError):
            raise outcome
        if outcome.failed and not outcome.refused:
            raise outcome.failure(operation)
        if outcome.conflicts:
            existing.append(operation)
    stored = await cluster.connection.get_many(
        [Place(each.index, each.id, each.routing) for each in existing], timeouts=WRITING
    )
    found = {each.id: document for each, document in zip(existing, stored, strict=True)}
    outcomes: list[EventOutcome] = []
    for event, (operation, outcome) in sent:
        if isinstance(outcome, Outcome) and outcome.done:
            outcomes.append(EventOutcome.WRITTEN)
        elif isinstance(outcome, Outcome) and outcome.conflicts:
            outcomes.append(await _compare(cluster, event, found[operation.id], retention))
        else:
            outcomes.append(EventOutcome.REFUSED)
    return outcomes


async def _compare(
    cluster: Cluster, event: StoredEvent, stored: Document | None, retention: Retention
) -> EventOutcome:
    """Return the outcome for an event whose id exists already.

    If retention has dropped the stored event, the new one is written.
    """
    if stored is not None and not retention.is_dropped(stored.source, TIME):
        same = stored.source["body"] == event.body.decode()
        return EventOutcome.UNCHANGED if same else EventOutcome.CONFLICT
    # Retention has dropped the stored event: readers do not see it, so this one is new.
    action: Action = "index" if stored else "create"
    guard = stored.version.parameters if stored else None

    def write_again(event: StoredEvent, stamp: int) -> Operation:
        operation = _operation_of(cluster, retention.epoch, event, stamp)
        return replace(operation, action=action, guard=guard)

    ((operation, outcome),) = await send_stamped(cluster, [event], write_again)
    if isinstance(outcome, StoreError):
        raise outcome
    if outcome.failed:
        raise outcome.failure(operation)
    return EventOutcome.WRITTEN if outcome.done else EventOutcome.CONFLICT


def _operation_of(cluster: Cluster, epoch: int, event: StoredEvent, stamp: int) -> Operation:
    routing = routing_of(event.repository)
    return Operation(
        "create",
        cluster.layout.events_of(slice_of(event.key.received_at)),
        document_id(event.repository, event.key),
        routing,
        {
            "repository_id": routing,
            TIME: to_microseconds(event.key.received_at),
            "id": event.key.id,
            "type": event.type,
            "pull_request": event.pull_request,
            "base_ref": event.base_ref,
            "trigger": event.searchable_trigger,
            "outcome": event.outcome.value,
            "epoch": epoch,
            "body": event.body.decode(),
            STAMP: stamp,
        },
    )
