"""Counts of the event log: totals, the bars of a histogram, and facets. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from indexing.timestamps import (
    DAY_MICROSECONDS,
    EARLIEST,
    HOUR_MICROSECONDS,
    LATEST,
    from_microseconds,
    to_microseconds,
)

V = TypeVar("V", str, int)

# The most values in one facet, the most frequent first.
MAX_FACET_VALUES: Final = 100
MAX_BARS: Final = 120
MIN_BARS: Final = 30

_SECOND: Final = 1_000_000
# Bar lengths within a day. Each is at most three times the one before, so that a histogram never
# has fewer than `MIN_BARS` bars.
_WITHIN_A_DAY: Final = (
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * 60 * _SECOND for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR_MICROSECONDS for hours in (1, 2, 3, 6, 12)),
)
_STEPS: Final = (1, 2, 5)
_FIRST: Final = to_microseconds(EARLIEST)
_LAST: Final = to_microseconds(LATEST)


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of a histogram: `count` of them, each `size` microseconds long.

    They begin at multiples of their size since 1970, so the first and the last may reach beyond the
    range, where nothing is counted. `first` is the number of the first one.
    """

    first: int
    size: int
    count: int

    def bounds(self, number: int) -> tuple[datetime, datetime]:
        """Return the start and the end of a bar; bars are counted from 0."""
        start = (self.first + number) * self.size
        return (
            from_microseconds(max(start, _FIRST)),
            from_microseconds(min(start + self.size, _LAST)),
        )

    @property
    def seconds(self) -> float:
        """The length of a bar in seconds."""
        return self.size / _SECOND


@dataclass(frozen=True, slots=True)
class FacetValue(Generic[V]):
    """One value of a facet, and how many events have it."""

    value: V
    count: int


@dataclass(frozen=True, slots=True)
class EventAggregate:
    """The counts of the events that match a query.

    `histogram` has the count of each bar. Each facet has its `MAX_FACET_VALUES` most frequent
    values; equally frequent ones are sorted by value. Events without a pull request, or with a
    trigger that is too long for an index, are not counted in that facet.
    """

    total: int
    histogram: tuple[int, ...]
    by_event_type: tuple[FacetValue[str], ...]
    by_outcome: tuple[FacetValue[str], ...]
    by_trigger: tuple[FacetValue[str], ...]
    by_pull_request: tuple[FacetValue[int], ...]


def choose_bars(received_from: datetime, received_to: datetime) -> Bars:
    """Choose the shortest bars of which at most `MAX_BARS` cover the range.

    There are at least `MIN_BARS`, unless the range has fewer microseconds; none for an empty range.
    """
    start, end = to_microseconds(received_from), to_microseconds(received_to)
    size = 1
    for size in _sizes():
        if _count(start, end, size) <= MAX_BARS:
            break
    return Bars(start // size, size, _count(start, end, size) if start < end else 0)


def rank(counts: Mapping[V, int]) -> tuple[FacetValue[V], ...]:
    """Return the facet of these counts."""
    # Sorting all of thousands of pull requests takes several times as long.
    if len(counts) > MAX_FACET_VALUES:
        counts = _most_frequent(counts)
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(FacetValue(value, count) for value, count in ranked)


def _most_frequent(counts: Mapping[V, int]) -> dict[V, int]:
    least = heapq.nlargest(MAX_FACET_VALUES, counts.values())[-1]
    found = {value: count for value, count in counts.items() if count > least}
    ties = (value for value, count in counts.items() if count == least)
    found.update(dict.fromkeys(heapq.nsmallest(MAX_FACET_VALUES - len(found), ties), least))
    return found


def _count(start: int, end: int, size: int) -> int:
    return -(-end // size) - start // size


def _sizes() -> Iterable[int]:
    for power in range(6):
        yield from (step * 10**power for step in _STEPS)
    yield from _WITHIN_A_DAY
    for power in range(6):
        yield from (step * 10**power * DAY_MICROSECONDS for step in _STEPS)
