"""What a request body says, read step by step, so that a caller can pause between two steps.

Pure: bytes in, values out. Each reader yields what it read, or None where a step gave nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from indexing.errors import InvalidValueError
from indexing.events.parsing import ParsedEvent, RefusedEventError
from indexing.ingest.compression import GZIP_WINDOW_BITS, CompressionError, inflate_gzip
from indexing.ingest.events import is_blank, read_event
from indexing.ingest.lines import Line, split_lines
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.otlp.json_mapping import read_json
from indexing.otlp.protobuf import read_protobuf
from indexing.otlp.requests import RequestError, RequestTooLargeError
from indexing.otlp.results import Results

# Unpacked. Text of logs and spans packs to a tenth, so a sender that packs reaches this first.
MAX_CONTENT_BYTES: Final = 32 * 1024 * 1024

# No event is written in fewer bytes than this on average: more lines than that are blank ones,
# which cost as much as others to look at.
LINE_MIN_BYTES: Final = 80
MAX_LINES: Final = MAX_CONTENT_BYTES // LINE_MIN_BYTES

# What is refused of a body is mostly refused for one reason: a screenful shows it.
TOLD_REFUSALS: Final = 20

JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"

_PIECE_BYTES: Final = 64 * 1024
_SPAN_READERS: Final = {PROTOBUF: read_protobuf, JSON: read_json}


class BodyError(InvalidValueError):
    """A body cannot be read; the text says why."""


class BodyTooLargeError(BodyError):
    """A body holds more than one body may."""


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """A line that holds a valid event; `line` has its place alone."""

    line: Line
    event: ParsedEvent


@dataclass(frozen=True, slots=True)
class WrongLine:
    """A line that holds none; `line` has its place alone."""

    line: Line
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UntoldLines:
    """How many more lines hold no event that can be stored."""

    count: int


@dataclass(frozen=True, slots=True)
class Rejections:
    """How many spans of a request were rejected; `complaint` says why, and which."""

    count: int
    complaint: str


def unpack(packed: bytes) -> bytes:
    """Unpack gzip.

    Raises:
        BodyError: it is no valid gzip, or holds more than `MAX_CONTENT_BYTES`.
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


def unpack_small(packed: bytes, limit: int) -> bytes | None:
    """Unpack one gzip member of at most `limit` bytes; None for anything else, good or not."""
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    try:
        content = member.decompress(packed, limit + 1)
    except zlib.error:
        return None
    return content if member.eof and not member.unused_data and len(content) <= limit else None


def read_events(
    repository: RepositoryName, now: datetime, content: bytes
) -> Iterator[AcceptedLine | WrongLine | UntoldLines | None]:
    """Give the lines of a body of events, all of which have to be of that repository.

    None of them may be dated more than a day ahead of `now`. Of wrong lines, the first
    `TOLD_REFUSALS` are given, and the number of the others at the end.

    Raises:
        BodyTooLargeError: before the first line, when there are too many.
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
            yield WrongLine(place, error.reasons) if wrong <= TOLD_REFUSALS else None
        else:
            yield AcceptedLine(place, event)
    if wrong > TOLD_REFUSALS:
        yield UntoldLines(wrong - TOLD_REFUSALS)


def read_spans(
    repository: RepositoryName, kind: str, now: datetime, content: bytes
) -> Iterator[tuple[Run, Execution] | Rejections | None]:
    """Give the executions of a trace request of that media type run by run, then the rejections.

    A span that ended more than a day ahead of `now` is rejected.

    Raises:
        BodyError: before the first execution, when any part of the request cannot be read.
    """
    results = Results(repository, now)
    try:
        for span in _SPAN_READERS[kind](content):
            results.add(span)
            yield None
    except RequestTooLargeError as error:
        raise BodyTooLargeError(str(error)) from error
    except RequestError as error:
        raise BodyError(str(error)) from error
    for run, executions in results.runs.items():
        for execution in executions:
            yield run, execution
    yield Rejections(results.rejected, results.complaint)
