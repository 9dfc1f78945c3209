"""Moves the dates of the examples to the present, so that default time ranges include them.

Pure: the date of the newest example determines all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import orjson

from indexing.ingest.junit import Refusal, ReportRequest
from indexing.ingest.lines import Line
from indexing.timestamps import format_timestamp, parse_timestamp

_TIMESTAMP: Final = re.compile(rb'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"')
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ExampleEvents:
    """The lines of the example events, and the `received_at` of each by event id."""

    lines: Sequence[Line]
    received: Mapping[int, datetime]

    @property
    def newest(self) -> datetime:
        return max(self.received.values())

    def moved_to(self, end: datetime) -> Iterator[Line]:
        """Yield the lines with all dates moved so that the newest event is at `end`."""
        by = end - self.newest
        for line in self.lines:
            yield replace(line, data=_TIMESTAMP.sub(lambda found: _moved(found, by), line.data))

    def find_end(self, event_id: int, received_at: datetime) -> datetime:
        """Return the `end` of an earlier load, derived from one event that it stored.

        Raises:
            KeyError: no example has that id.
        """
        return received_at - self.received[event_id] + self.newest


def read_events(lines: Iterable[Line]) -> ExampleEvents:
    """Read the example events; they must be well-formed."""
    kept = list(lines)
    documents = [orjson.loads(line.data) for line in kept if line.data.strip()]
    return ExampleEvents(
        kept, {each["id"]: parse_timestamp(each["received_at"]) for each in documents}
    )


def move_reports(
    requests: Iterable[ReportRequest | Refusal], end: datetime
) -> Iterator[ReportRequest | Refusal]:
    """Move the reports by whole days, so that the newest is at most one day before `end`.

    Moving by whole days keeps the results of each day together at any hour of loading.
    """
    kept = list(requests)
    times = [
        request.started_at
        for request in kept
        if isinstance(request, ReportRequest) and request.started_at is not None
    ]
    by = (end - max(times, default=end)) // _DAY * _DAY
    for request in kept:
        if isinstance(request, ReportRequest) and request.started_at is not None:
            yield replace(request, started_at=request.started_at + by)
        else:
            yield request


def _moved(found: re.Match[bytes], by: timedelta) -> bytes:
    return b'"%s"' % format_timestamp(parse_timestamp(found[1].decode()) + by).encode()
