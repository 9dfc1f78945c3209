"""Counts the matching events of whole UTC days, and remembers the counts in this process.

Events never change, and only retention deletes them, which has not reached these days. So a range
with as many events as before has the same events: dashboards that poll cost one search for that
number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from indexing.models.events import EventQuery
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.event_days import count_events, read_days
from indexing.store.elasticsearch.event_filtering import add_counted, add_matching
from indexing.store.elasticsearch.event_query import every_of
from indexing.store.elasticsearch.event_sums import EventSums
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.yielding import LoopYielder

# The values and bars to remember, of about 100 bytes each.
_VALUES: Final = 200_000
# A range with more of them must not displace those of others.
_VALUES_OF_ONE: Final = _VALUES // 10


@dataclass(frozen=True, slots=True)
class WholeDays:
    """The counts of the matching events of the whole days of a range.

    `sums` has none of the days in `left_out`, whose counts are too large to be stored.
    """

    sums: EventSums
    left_out: Sequence[int] = ()


class RememberedDays:
    """The counts of whole days that this process has added up; those used least are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[EventQuery, int], tuple[WholeDays, int]] = OrderedDict()
        self._values = 0

    def find(self, query: EventQuery, size: int) -> tuple[WholeDays, int] | None:
        """Return the counts in bars of this size, and how many events there were of any kind."""
        known = self._known.get((query, size))
        if known is not None:
            self._known.move_to_end((query, size))
        return known

    def keep(self, query: EventQuery, days: WholeDays, total: int) -> None:
        """Remember the counts of days that have `total` events of any kind."""
        key = (query, days.sums.size)
        replaced = self._known.pop(key, None)
        if replaced is not None:
            self._values -= replaced[0].sums.values
        if days.sums.values > _VALUES_OF_ONE:
            return
        self._known[key] = (days, total)
        self._values += days.sums.values
        while self._values > _VALUES:
            _, (forgotten, _) = self._known.popitem(last=False)
            self._values -= forgotten.sums.values


async def count_whole_days(
    cluster: Cluster,
    remembered: RememberedDays,
    query: EventQuery,
    retention: Retention,
    size: int,
) -> WholeDays | None:
    """Count the events of a query, which has whole days, in bars of `size` microseconds.

    Retention must not have reached any of the days. Returns `None` if counting the matching events
    together with others is faster.
    """
    known = remembered.find(query, size)
    if known is not None:
        counted, total = known
        if await count_events(cluster, every_of(query), retention) == total:
            return counted
    found = await read_days(cluster, query, retention)
    if found is None:
        return None
    total = sum(day.total for day in found)
    stored = [day for day in found if day.fields is not None]
    left_out = [day.day for day in found if day.fields is None]
    sums = EventSums(size)
    if not stored:
        return None
    if query == every_of(query):
        yielder = LoopYielder()
        for day in stored:
            sums.add_day(day)
            await yielder.yield_if_due()
    elif not await add_matching(cluster, query, stored, total, retention, sums):
        left_out = []
        if not await add_counted(cluster, query, total, retention, sums):
            return None
    counted = WholeDays(sums, left_out)
    remembered.keep(query, counted, total)
    return counted
