"""Adds up counts of the event log from tables of days and from answers of the cluster.

Adding needs all values of a facet. A facet of which an answer has not all is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from indexing.store.elasticsearch.event_conditions import PULL_REQUEST, Condition
from indexing.store.elasticsearch.event_query import FACETS, read_bars
from indexing.store.elasticsearch.event_tables import DayTable
from indexing.timestamps import DAY_MICROSECONDS, HOUR_MICROSECONDS


@dataclass(slots=True)
class EventSums:
    """Counts by the number of a bar of `size` microseconds, and by the values of each facet.

    The facets in `dropped` have too many values to be added up.
    """

    size: int
    bars: Counter[int] = field(default_factory=Counter)
    # Not counters: a range has thousands of pull requests each day, and adding to a counter takes
    # twice as long.
    facets: dict[str, dict[Any, int]] = field(default_factory=lambda: {name: {} for name in FACETS})
    dropped: set[str] = field(default_factory=set)

    @property
    def values(self) -> int:
        """The number of bars and values that have a count."""
        return len(self.bars) + sum(map(len, self.facets.values()))

    @property
    def fields(self) -> list[str]:
        """The facets that are added up."""
        return [name for name in FACETS if name not in self.dropped]

    def add(self, other: EventSums) -> None:
        """Add counts in bars of the same size."""
        self.bars.update(other.bars)
        self.drop(other.dropped)
        for name, facet in self._added():
            _add(facet, other.facets[name].items())

    def add_table(self, table: DayTable, conditions: Sequence[Condition], hours: range) -> None:
        """Add the counts of the events of a day that match, in these hours of it.

        A bar has whole hours.
        """
        for part in table.parts or ():
            found = part.count(conditions, hours)
            for hour, count in enumerate(found.hours):
                if count:
                    start = table.day * DAY_MICROSECONDS + hour * HOUR_MICROSECONDS
                    self.bars[start // self.size] += count
            for name, facet in self._added():
                counted = found.pulls if name == PULL_REQUEST else found.values[name].items()
                _add(facet, counted)

    def add_answer(self, answer: Mapping[str, Any]) -> None:
        """Add the counts in an answer to `count_facets`."""
        self.bars.update(read_bars(answer, self.size))
        # If no index matched, there are no aggregations.
        found = answer.get("aggregations")
        if found is None:
            return
        self.drop(name for name in FACETS if name not in found or _lacks_values(found[name]))
        for name, facet in self._added():
            _add(facet, [(e["key"], e["doc_count"]) for e in found[name]["buckets"]])

    def drop(self, names: Iterable[str]) -> None:
        """Forget these facets, and add nothing to them any more."""
        for name in names:
            self.dropped.add(name)
            self.facets[name].clear()

    def _added(self) -> list[tuple[str, dict[Any, int]]]:
        return [(name, self.facets[name]) for name in self.fields]


def _lacks_values(found: Mapping[str, Any]) -> bool:
    return bool(found["sum_other_doc_count"])


def _add(facet: dict[Any, int], pairs: Iterable[tuple[Any, int]]) -> None:
    get = facet.get
    for value, count in pairs:
        if count:
            facet[value] = get(value, 0) + count
