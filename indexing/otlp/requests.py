"""What a trace export request gives, span by span, and the limits of it; nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from indexing.errors import InvalidValueError

# SDKs send 512 spans at a time, collectors some thousands. Two bytes can be a span, so that the
# size of a request alone does not bound the work that it makes.
MAX_SPANS: Final = 50_000

# Enough for any stack trace with all that is beside it. Two bytes can be an attribute that takes a
# hundred in memory, and one span at a time is decoded.
SPAN_MAX_BYTES: Final = 1024 * 1024

# SDKs stop at 128.
MAX_ATTRIBUTES: Final = 1_000
MAX_EVENTS: Final = 1_000

AttributeValue = str | bool | int | float
Attributes = Mapping[str, AttributeValue]


class RequestError(InvalidValueError):
    """A request cannot be read at all; the text says where and why."""


class RequestTooLargeError(RequestError):
    """A request holds more than one request may."""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """What is used of a span, and where it stood in its request.

    Times are in nanoseconds since 1970, 0 where none was given. `exception` is what the last
    event of that name tells: an SDK records one wherever it passes through.
    """

    place: str
    resource: Attributes
    name: str
    trace_id: bytes
    span_id: bytes
    started: int
    ended: int
    is_error: bool
    status_message: str
    attributes: Attributes
    exception: Attributes


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """A span that could not be decoded; the rest of its request could."""

    place: str
    reason: str


class SpanCounter:
    """Counts the spans of one request."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one more; raises `RequestTooLargeError` where that is one too many."""
        self._count += 1
        if self._count > MAX_SPANS:
            raise RequestTooLargeError(f"more than {MAX_SPANS} spans in one request")


class TooManyError(InvalidValueError):
    """One holder has more of something than is taken."""


def check_count(count: int, limit: int, what: str) -> None:
    """Raise `TooManyError` where there are more of them than one holder has."""
    if count > limit:
        raise TooManyError(f"more than {limit} {what}")
