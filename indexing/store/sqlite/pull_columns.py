"""The events of a day in columns, to count them by pull request under any filters. Pure.

A column has one byte for each event, so a filter is a translation of bytes and takes about a
nanosecond an event. The events are in this order: the first one of each pull request, then the
second one of those that have another, and so on. So the counts of all pull requests are sums of
slices, each of which is one addition of long integers. Pull requests with more events than a byte
can count come last, each with its events in a row.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, Final

import orjson

# How many values a byte can tell apart.
_BYTE: Final = 256
# A day with more values of a field, or more text in them, is not worth reading for each aggregate.
_MOST_VALUES: Final = 4_096
_MOST_TEXT: Final = 256 * 1024

Values = tuple[Any, ...]
# For each filtered field, says whether a value of it passes.
Filters = Mapping[str, Callable[[Any], bool]]


@dataclass(frozen=True, slots=True)
class PullColumns:
    """The columns of a day, as they are stored: `header` describes the other two."""

    header: bytes
    pulls: bytes
    codes: bytes


def make_columns(fields: Sequence[str], events: Iterable[tuple[int, Values]]) -> PullColumns | None:
    """Make the columns of events, each with its pull request and the values of `fields`.

    Returns `None` if there are too many values.
    """
    numbers: dict[Values, int] = {}
    by_pull: defaultdict[int, list[int]] = defaultdict(list)
    for pull, values in events:
        by_pull[pull].append(numbers.setdefault(values, len(numbers)))
    few, busy = _arrange(by_pull)
    slices: list[list[int]] = []
    longer = [by_pull[pull] for pull in few]
    while longer:
        slices.append([own[len(slices)] for own in longer])
        longer = [own for own in longer if len(own) > len(slices)]
    in_order = [*chain.from_iterable(slices), *chain.from_iterable(by_pull[p] for p in busy)]
    columns: list[dict[str, Any]] = []
    codes: list[bytes] = []
    for some in _join(len(fields), list(numbers)):
        parts: dict[Values, int] = {}
        code_of = [parts.setdefault(tuple(v[i] for i in some), len(parts)) for v in numbers]
        if len(parts) > _MOST_VALUES:
            return None
        codes.append(bytes(code_of[number] % _BYTE for number in in_order))
        if len(parts) > _BYTE:
            codes.append(bytes(code_of[number] // _BYTE for number in in_order))
        columns.append({"fields": [fields[i] for i in some], "values": list(parts)})
    header = orjson.dumps(
        {
            "columns": columns,
            "slices": [len(each) for each in slices],
            "busy": [len(by_pull[pull]) for pull in busy],
        }
    )
    if len(header) > _MOST_TEXT:
        return None
    pulls = [*few, *busy]
    return PullColumns(header, struct.pack(f"<{len(pulls)}q", *pulls), b"".join(codes))


def count_pulls(stored: PullColumns, filters: Filters) -> Iterator[tuple[int, int]]:
    """Return the pull requests with the number of their events that match, also if it is 0."""
    header = orjson.loads(stored.header)
    slices, busy = header["slices"], header["busy"]
    size = sum(slices) + sum(busy)
    if not size:
        return iter(())
    codes = (stored.codes[at : at + size] for at in range(0, len(stored.codes), size))
    mask = _match(header["columns"], codes, size, filters)
    bounds = list(accumulate([*slices, *busy], initial=0))
    few, total = (slices or [0])[0], 0
    for start, end in pairwise(bounds[: len(slices) + 1]):
        total += int.from_bytes(mask[start:end], "little")
    pulls = struct.unpack(f"<{len(stored.pulls) // 8}q", stored.pulls)
    of_busy = (mask.count(b"\1", start, end) for start, end in pairwise(bounds[len(slices) :]))
    return zip(pulls, chain(total.to_bytes(few, "little"), of_busy), strict=True)


def _arrange(by_pull: Mapping[int, Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the pull requests with few events, those with the most first, and the busy ones."""
    by_count: defaultdict[int, list[int]] = defaultdict(list)
    for pull, own in by_pull.items():
        by_count[len(own)].append(pull)
    counts = sorted(by_count, reverse=True)
    few = [pull for count in counts if count < _BYTE for pull in by_count[count]]
    return few, [pull for count in counts if count >= _BYTE for pull in by_count[count]]


def _match(
    columns: Sequence[dict[str, Any]], codes: Iterator[bytes], size: int, filters: Filters
) -> bytes:
    """Return a byte for each event: 1 if it matches, otherwise 0."""
    masks = []
    for column in columns:
        low = next(codes)
        high = next(codes) if len(column["values"]) > _BYTE else None
        checks = [(at, filters[f]) for at, f in enumerate(column["fields"]) if f in filters]
        if checks:
            fitting = [all(fits(each[at]) for at, fits in checks) for each in column["values"]]
            masks.append(_mask(fitting, low, high))
    if len(masks) == 1:
        return masks[0]
    if not masks:
        return b"\1" * size
    both = int.from_bytes(masks[0], "little")
    for mask in masks[1:]:
        both &= int.from_bytes(mask, "little")
    return both.to_bytes(size, "little")


def _mask(fitting: Sequence[bool], low: bytes, high: bytes | None) -> bytes:
    if high is None:
        return low.translate(_table(fitting))
    pages = [fitting[at : at + _BYTE] for at in range(0, len(fitting), _BYTE)]
    found = int.from_bytes(high.translate(_table([all(page) for page in pages])), "little")
    for number, page in enumerate(pages):
        if any(page) and not all(page):
            of_page = high.translate(_table([each == number for each in range(len(pages))]))
            these = low.translate(_table(page))
            found |= int.from_bytes(of_page, "little") & int.from_bytes(these, "little")
    return found.to_bytes(len(low), "little")


def _table(fitting: Sequence[bool]) -> bytes:
    return bytes(fitting).ljust(_BYTE, b"\0")


def _join(fields: int, values: Sequence[Values]) -> list[tuple[int, ...]]:
    """Return the fields of each column: as many as one byte can tell the values apart of."""
    joined: list[tuple[int, ...]] = []
    for field in range(fields):
        wider = (*joined[-1], field) if joined else (field,)
        if not joined or len({tuple(each[i] for i in wider) for each in values}) > _BYTE:
            joined.append((field,))
        else:
            joined[-1] = wider
    return joined
