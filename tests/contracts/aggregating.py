"""Writes events, and compares the counts of a query with the rows that it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from indexing.models.event_aggregates import choose_bars
from indexing.models.events import EventQuery, StoredEvent
from indexing.models.paging import Anchor
from indexing.store.interface import Store
from tests.builders import WIDGETS


async def write(store: Store, batch: Iterable[StoredEvent]) -> None:
    batch = list(batch)
    for name in {event.repository for event in batch} | {WIDGETS}:
        await store.ensure_repository(name)
    if batch:
        await store.write_events(batch)


async def check(store: Store, query: EventQuery, known: Iterable[StoredEvent]) -> None:
    """Assert that the counts equal those of the rows of a walk."""
    keys = set()
    anchor: Any = Anchor()
    while True:
        page = await store.list_events(query, anchor, 1_000)
        keys |= {row.key for row in page.rows}
        if not page.has_next:
            break
        anchor = Anchor(page.rows[-1].key)
    rows = [each for each in known if each.key in keys]
    bars = choose_bars(query.received_from, query.received_to)
    found = await store.aggregate_events(query, bars)
    assert found.total == len(rows) == len(keys)
    assert len(found.histogram) == bars.count
    for number, count in enumerate(found.histogram):
        start, end = bars.bounds(number)
        assert count == sum(start <= row.key.received_at < end for row in rows)
    assert sum(found.histogram) == len(rows)

    def facet(values: Iterable[Any]) -> list[tuple[Any, int]]:
        counted = Counter(value for value in values if value is not None)
        return sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:100]

    for facet_found, values in (
        (found.by_event_type, [row.type for row in rows]),
        (found.by_outcome, [row.outcome.value for row in rows]),
        (found.by_trigger, [row.searchable_trigger for row in rows]),
        (found.by_pull_request, [row.pull_request for row in rows]),
    ):
        pairs: Iterable[Any] = facet_found
        assert [(each.value, each.count) for each in pairs] == facet(values)
