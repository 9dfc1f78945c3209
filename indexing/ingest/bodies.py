"""Parses request bodies step by step, so that a caller can pause between two steps.

Pure: bytes in, values out. Each parser yields the parsed values, or None after a step without any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from indexing.events.parsing import ParsedEvent, RefusedEventError
from indexing.ingest.body_errors import BodyError, BodyTooLargeError
from indexing.ingest.compression import CompressionError, inflate_gzip
from indexing.ingest.events import is_blank, read_event
from indexing.ingest.lines import Line, split_lines
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.otlp.json_mapping import read_json
from indexing.otlp.protobuf import read_protobuf
from indexing.otlp.requests import JSON, PROTOBUF, RequestError, RequestTooLargeError
from indexing.otlp.results import Results

# The largest decompressed size. Logs and spans compress to a tenth, so a compressed body reaches
# this limit before the one on its compressed size.
MAX_CONTENT_BYTES: Final = 32 * 1024 * 1024

# Events are larger than this on average. A body with more lines than `MAX_LINES` has blank ones,
# and each of those costs as much time as any other line.
LINE_MIN_BYTES: Final = 80
MAX_LINES: Final = MAX_CONTENT_BYTES // LINE_MIN_BYTES

# The most refused lines that are reported one by one: most refusals of one body have the same
# reason.
REPORTED_REFUSALS: Final = 20

_PIECE_BYTES: Final = 64 * 1024
_SPAN_READERS: Final = {PROTOBUF: read_protobuf, JSON: read_json}


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """A line with a valid event; `line` has only its number and offset."""

    line: Line
    event: ParsedEvent


@dataclass(frozen=True, slots=True)
class WrongLine:
    """A line without a valid event; `line` has only its number and offset."""

    line: Line
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnreportedLines:
    """The number of further refused lines, which are not reported one by one."""

    count: int


@dataclass(frozen=True, slots=True)
class Rejections:
    """The number of rejected spans of a request; `error_message` has reasons with example spans."""

    count: int
    error_message: str


def unpack(packed: bytes) -> bytes:
    """Decompress gzip.

    Raises:
        BodyError: it is not valid gzip, or exceeds `MAX_CONTENT_BYTES`.
    """
    pieces: list[bytes] = []
    size = 0
    cut = (packed[at : at + _PIECE_BYTES] for at in range(0, len(packed), _PIECE_BYTES))
    try:
        for piece in inflate_gzip(cut):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_CONTENT_BYTES:
                raise BodyTooLargeError(
                    f"the request body is unpacked larger than {MAX_CONTENT_BYTES} bytes"
                )
    except CompressionError as error:
        raise BodyError(f"the request body cannot be unpacked: {error}") from error
    return b"".join(pieces)


def read_events(
    repository: RepositoryName, now: datetime, content: bytes
) -> Iterator[AcceptedLine | WrongLine | UnreportedLines | None]:
    """Yield the lines of a body of events, which must all belong to that repository.

    No event may be dated more than a day after `now`. Yields the first `REPORTED_REFUSALS` wrong
    lines, and the number of further ones at the end.

    Raises:
        BodyTooLargeError: there are too many lines; raised before the first one is yielded.
    """
    if content.count(b"\n") > MAX_LINES:
        raise BodyTooLargeError(f"the request body has more than {MAX_LINES} lines")
    wrong = 0
    for line in split_lines(content):
        if is_blank(line):
            yield None
            continue
        place = replace(line, data=b"", defect=None)
        try:
            event = read_event(line, now, repository)
        except RefusedEventError as error:
            wrong += 1
            yield WrongLine(place, error.reasons) if wrong <= REPORTED_REFUSALS else None
        else:
            yield AcceptedLine(place, event)
    if wrong > REPORTED_REFUSALS:
        yield UnreportedLines(wrong - REPORTED_REFUSALS)


def read_spans(
    repository: RepositoryName, media_type: str, now: datetime, content: bytes
) -> Iterator[tuple[Run, Execution] | Rejections | None]:
    """Yield the executions of a trace request of that media type, run by run, then the rejections.

    A span that ended more than a day after `now` is rejected.

    Raises:
        BodyError: a part of the request cannot be parsed; raised before the first execution.
    """
    results = Results(repository, now)
    try:
        for span in _SPAN_READERS[media_type](content):
            results.add(span)
            yield None
    except RequestTooLargeError as error:
        raise BodyTooLargeError(str(error)) from error
    except RequestError as error:
        raise BodyError(str(error)) from error
    for run, executions in results.runs.items():
        for execution in executions:
            yield run, execution
    yield Rejections(results.rejected, results.error_message)
