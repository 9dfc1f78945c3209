"""Moves the dates of the examples up to the present: what is a year old is in no default range.

Pure: everything follows from the moment that the examples are to end at.
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
    """The lines of the example events, and when each of them was received there."""

    lines: Sequence[Line]
    received: Mapping[int, datetime]

    @property
    def newest(self) -> datetime:
        return max(self.received.values())

    def moved_to(self, end: datetime) -> Iterator[Line]:
        """The lines with all their dates moved, so that the newest event is of this moment."""
        by = end - self.newest
        for line in self.lines:
            yield replace(line, data=_TIMESTAMP.sub(lambda found: _moved(found, by), line.data))

    def find_end(self, event_id: int, received_at: datetime) -> datetime:
        """The moment that the lines were moved to, by one event that was loaded then.

        Raises:
            KeyError: no example has that id.
        """
        return received_at - self.received[event_id] + self.newest


def read_events(lines: Iterable[Line]) -> ExampleEvents:
    """Keep the lines of the example events; they have to be well-formed."""
    kept = list(lines)
    documents = [orjson.loads(line.data) for line in kept if line.data.strip()]
    return ExampleEvents(
        kept, {each["id"]: parse_timestamp(each["received_at"]) for each in documents}
    )


def move_reports(
    requests: Iterable[ReportRequest | Refusal], end: datetime
) -> Iterator[ReportRequest | Refusal]:
    """Move the reports by whole days, so that the newest is of the last day before this moment.

    What is judged by day is so judged alike at whatever hour the examples are loaded.
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
