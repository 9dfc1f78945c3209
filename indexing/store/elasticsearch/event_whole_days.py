"""Counts the matching events of whole UTC days, and remembers the counts in this process.

Events never change, and only retention deletes them, which has not reached these days. So a range
with as many events as before has the same events: dashboards that poll cost one search for that
number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from indexing.lru import Lru
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.event_days import count_events, read_days
from indexing.store.elasticsearch.event_filtering import add_counted, add_matching
from indexing.store.elasticsearch.event_query import every_of
from indexing.store.elasticsearch.event_sums import EventSums
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.yielding import LoopYielder

# The memory for counts, of about so many bytes for each value or bar.
_BYTES: Final = 20_000_000
_BYTES_OF_VALUE: Final = 100
# A range with more of them must not displace those of others.
_BYTES_OF_ONE: Final = _BYTES // 10
# The memory of a query, whose filters are at most as long as the target of a request.
_BYTES_OF_QUERY: Final = 16_000


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
        self._known: Lru[tuple[WholeDays, int]] = Lru(_BYTES, _BYTES_OF_QUERY)

    def find(self, query: EventQuery, size: int) -> tuple[WholeDays, int] | None:
        """Return the counts in bars of this size, and how many events there were of any kind."""
        return self._known.find((query, size))

    def keep(self, query: EventQuery, days: WholeDays, total: int) -> None:
        """Remember the counts of days that have `total` events of any kind."""
        key, size = (query, days.sums.size), days.sums.values * _BYTES_OF_VALUE
        if size > _BYTES_OF_ONE:
            self._known.drop(key)
        else:
            self._known.keep(key, (days, total), size, math.inf)


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
        if not await add_counted(cluster, query, stored, total, retention, sums):
            return None
    counted = WholeDays(sums, left_out)
    remembered.keep(query, counted, total)
    return counted
