"""Adds up counts of the event log from stored days and from answers of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from indexing.health.window import DAY_MICROSECONDS
from indexing.store.elasticsearch.event_day_counts import HOUR_MICROSECONDS, DayCounts
from indexing.store.elasticsearch.event_query import FACETS, read_bars


@dataclass(slots=True)
class EventSums:
    """Counts by the number of a bar of `size` microseconds, and by the values of each facet."""

    size: int
    bars: Counter[int] = field(default_factory=Counter)
    # Not counters: a range has thousands of pull requests each day, and adding to a counter takes
    # twice as long.
    facets: dict[str, dict[Any, int]] = field(default_factory=lambda: {name: {} for name in FACETS})

    @property
    def values(self) -> int:
        """The number of bars and values that have a count."""
        return len(self.bars) + sum(map(len, self.facets.values()))

    def add(self, other: EventSums) -> None:
        """Add counts in bars of the same size."""
        self.bars.update(other.bars)
        for name, facet in self.facets.items():
            _add(facet, other.facets[name].items(), 1)

    def add_day(self, day: DayCounts, sign: int = 1) -> None:
        """Add the counts of a day, or subtract them. A bar has whole hours."""
        for hour, count in enumerate(day.hours):
            if count:
                start = day.day * DAY_MICROSECONDS + hour * HOUR_MICROSECONDS
                self.bars[start // self.size] += sign * count
        for name, facet in self.facets.items():
            values, counts = (day.fields or {}).get(name, ((), ()))
            _add(facet, zip(values, counts, strict=True), sign)

    def add_answer(self, answer: Mapping[str, Any], sign: int = 1) -> None:
        """Add the counts in an answer to `count_facets`, or subtract them."""
        for bar, count in read_bars(answer, self.size).items():
            self.bars[bar] += sign * count
        found = answer.get("aggregations", {})
        for name, facet in self.facets.items():
            _add(facet, _read_facet(found, name), sign)

    def replace_facet(
        self, name: str, answer: Mapping[str, Any], values: Mapping[Any, int]
    ) -> None:
        """Add `values` in place of those of this facet in an answer that has been added."""
        _add(self.facets[name], _read_facet(answer["aggregations"], name), -1)
        _add(self.facets[name], values.items(), 1)


def incomplete_facets(answer: Mapping[str, Any]) -> list[str]:
    """Return the facets of which an answer to `count_facets` does not have all values."""
    found = answer.get("aggregations", {})
    return [name for name in FACETS if found.get(name, {}).get("sum_other_doc_count")]


def _read_facet(found: Mapping[str, Any], name: str) -> list[tuple[Any, int]]:
    return [(each["key"], each["doc_count"]) for each in found[name]["buckets"]] if found else []


def _add(facet: dict[Any, int], pairs: Iterable[tuple[Any, int]], sign: int) -> None:
    get = facet.get
    if sign > 0:
        for value, count in pairs:
            facet[value] = get(value, 0) + count
    else:
        for value, count in pairs:
            facet[value] = get(value, 0) - count
