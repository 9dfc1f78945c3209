"""A table of the events of a UTC day, from which the counts follow for any filters. Pure.

A day has few combinations of the values that filters name, apart from pull requests. A table has
the number of events of each combination in each hour. For pull requests, of which a day has
thousands, it has the events of each in two strings of bytes: one byte is the combination of an
event, the other one its hour. Whole strings are filtered and split by single calls.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, Self

import orjson

from indexing.store.elasticsearch.event_conditions import PULL_REQUEST, Condition

HOURS_A_DAY: Final = 24
# The fields that make a combination.
COMBINED: Final = ("type", "outcome", "trigger", "base_ref")

Combination = tuple[str | None, ...]

# Codes of combinations are bytes. Zero is an event that is left out, and the greatest byte is
# between the events of two pull requests.
_LEFT_OUT: Final = 0
_BETWEEN: Final = 255
_MOST_CODES: Final = _BETWEEN - 1
# The same byte in the hours.
_BETWEEN_HOURS: Final = HOURS_A_DAY
_COMPRESSION: Final = 6
_END_OF_HEAD: Final = b"\0"


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of events in each hour of a day, of each value, and of each pull request.

    A count of a pull request may be zero.
    """

    hours: Sequence[int]
    values: Mapping[str, Mapping[str, int]]
    pulls: Iterable[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Part:
    """The events of a day with at most `_MOST_CODES` combinations, whose codes begin with 1.

    `hours` has the number of events in each hour, for each combination. `codes` and `code_hours`
    have the events of each of the `pulls`.
    """

    combinations: Sequence[Sequence[str | None]]
    hours: Sequence[Sequence[int]]
    pulls: Sequence[int]
    codes: bytes
    code_hours: bytes

    def count(self, conditions: Sequence[Condition], within: range) -> Counts:
        """Count the events in these hours that match all conditions."""
        named = next((each for each in conditions if each.field == PULL_REQUEST), None)
        others = [(COMBINED.index(e.field), e) for e in conditions if e is not named]
        kept = [all(e.holds(values[n]) for n, e in others) for values in self.combinations]
        rows = self.hours if named is None else self._rows_of(named)
        hours = [0] * HOURS_A_DAY
        sums: dict[str, dict[str, int]] = {name: {} for name in COMBINED}
        matching = [
            (values, row)
            for values, row, is_kept in zip(self.combinations, rows, kept, strict=True)
            if is_kept
        ]
        for hour, column in enumerate(zip(*(row for _, row in matching), strict=True)):
            if hour in within:
                hours[hour] = sum(column)
        for values, row in matching:
            count = sum(row[within.start : within.stop])
            for name, value in zip(COMBINED, values, strict=True):
                if value is not None and count:
                    sums[name][value] = sums[name].get(value, 0) + count
        return Counts(hours, sums, self._count_pulls(kept, within, named))

    def _count_pulls(
        self, kept: Sequence[bool], within: range, named: Condition | None
    ) -> Iterator[tuple[int, int]]:
        codes = self.codes
        if len(within) < HOURS_A_DAY:
            mask = bytes(
                _BETWEEN if hour in within or hour == _BETWEEN_HOURS else 0 for hour in range(256)
            )
            both = int.from_bytes(codes) & int.from_bytes(self.code_hours.translate(mask))
            codes = both.to_bytes(len(codes))
        gone = bytes([_LEFT_OUT, *(n for n, is_kept in enumerate(kept, 1) if not is_kept)])
        counts = map(len, codes.translate(None, gone).split(bytes([_BETWEEN])))
        # Without pull requests there is one count, of none.
        pairs = zip(self.pulls, counts, strict=False)
        if named is None:
            return pairs
        return (pair for pair in pairs if named.holds(pair[0]))

    def _rows_of(self, named: Condition) -> list[list[int]]:
        """Return `hours`, of the events whose pull requests match only."""
        sign = -1 if named.is_negated else 1
        rows = [[*row] if named.is_negated else [0] * HOURS_A_DAY for row in self.hours]
        if named.values.isdisjoint(self.pulls):
            return rows
        lengths = map(len, self.codes.split(bytes([_BETWEEN])))
        ends = accumulate((length + 1 for length in lengths), initial=0)
        for pull, (start, end) in zip(self.pulls, pairwise(ends), strict=True):
            if pull in named.values:
                some = slice(start, end - 1)
                for code, hour in zip(self.codes[some], self.code_hours[some], strict=True):
                    rows[code - 1][hour] += sign
        return rows


@dataclass(frozen=True, slots=True)
class DayTable:
    """The table of all events of a UTC day; `of` is their number.

    `parts` is None if they are too many to be stored.
    """

    day: int
    of: int
    parts: Sequence[Part] | None

    def encode(self) -> str | None:
        """Return the parts as text."""
        if self.parts is None:
            return None
        head = [
            {
                "combinations": part.combinations,
                "hours": part.hours,
                # Differences take less space.
                "pulls": [b - a for a, b in pairwise([0, *part.pulls])],
                "size": len(part.codes),
            }
            for part in self.parts
        ]
        strings = (each for part in self.parts for each in (part.codes, part.code_hours))
        plain = b"".join((orjson.dumps(head), _END_OF_HEAD, *strings))
        return base64.b64encode(zlib.compress(plain, _COMPRESSION)).decode()

    @classmethod
    def decode(cls, day: int, of: int, text: str | None) -> Self:
        """Return the table with the parts of `encode`."""
        if text is None:
            return cls(day, of, None)
        head, _, strings = zlib.decompress(base64.b64decode(text)).partition(_END_OF_HEAD)
        parts = []
        start = 0
        for each in orjson.loads(head):
            middle = start + each["size"]
            end = middle + each["size"]
            pulls = list(accumulate(each["pulls"]))
            planes = (strings[start:middle], strings[middle:end])
            parts.append(Part(each["combinations"], each["hours"], pulls, *planes))
            start = end
        return cls(day, of, parts)


@dataclass(slots=True)
class TableMaker:
    """Makes a table of the events that are added."""

    of: int = 0
    _numbers: dict[Combination, int] = field(default_factory=dict)
    _hours: list[list[int]] = field(default_factory=list)
    # For each part, the codes and hours of each pull request.
    _pulls: list[dict[int, tuple[bytearray, bytearray]]] = field(default_factory=list)

    @property
    def values(self) -> int:
        """The number of combinations, and of pull requests in each part."""
        return len(self._numbers) + sum(map(len, self._pulls))

    def add(self, combination: Combination, hour: int, pull: int | None, count: int) -> None:
        """Add so many events of this hour of the day."""
        number = self._numbers.setdefault(combination, len(self._numbers))
        part, code = divmod(number, _MOST_CODES)
        if number == len(self._hours):
            self._hours.append([0] * HOURS_A_DAY)
        if part == len(self._pulls):
            self._pulls.append({})
        self.of += count
        self._hours[number][hour] += count
        if pull is not None:
            codes, hours = self._pulls[part].setdefault(pull, (bytearray(), bytearray()))
            codes += bytes([code + 1]) * count
            hours += bytes([hour]) * count

    def make(self, day: int) -> DayTable:
        """Return the table of this day."""
        combinations = [*self._numbers]
        parts = []
        for number, by_pull in enumerate(self._pulls):
            some = slice(number * _MOST_CODES, (number + 1) * _MOST_CODES)
            pulls = sorted(by_pull)
            codes, hours = (
                bytes([between]).join(by_pull[pull][nth] for pull in pulls)
                for nth, between in enumerate((_BETWEEN, _BETWEEN_HOURS))
            )
            parts.append(Part(combinations[some], self._hours[some], pulls, codes, hours))
        return DayTable(day, self.of, parts)
