"""The values from parsing a trace export request, and its limits. Parses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from indexing.errors import InvalidValueError

# The media types that a request may have.
JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"

# SDKs send 512 spans at a time, collectors some thousands. A span can be as small as two bytes, so
# the size of a request alone does not limit its work.
MAX_SPANS: Final = 50_000

# Enough for any stack trace and the data beside it. An attribute of two bytes can take a hundred in
# memory, and spans are decoded one at a time.
SPAN_MAX_BYTES: Final = 1024 * 1024

# SDKs allow 128.
MAX_ATTRIBUTES: Final = 1_000
MAX_EVENTS: Final = 1_000

AttributeValue = str | bool | int | float
Attributes = Mapping[str, AttributeValue]


class RequestError(InvalidValueError):
    """A request cannot be parsed at all; the message says where and why."""


class RequestTooLargeError(RequestError):
    """A request exceeds one of the limits."""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """The used parts of a span, and its place in the request.

    Times are in nanoseconds since 1970, 0 if missing. `exception` has the attributes of the last
    event of that name: an SDK records one at each level that the exception passes through.
    """

    place: str
    resource: Attributes
    name: str
    trace_id: bytes
    span_id: bytes
    started: int
    ended: int
    is_ok: bool
    is_error: bool
    status_message: str
    attributes: Attributes
    exception: Attributes


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """A span that could not be decoded; the rest of its request is not affected."""

    place: str
    reason: str


class SpanCounter:
    """Counts the spans of one request."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one span; raise `RequestTooLargeError` if there are too many."""
        self._count += 1
        if self._count > MAX_SPANS:
            raise RequestTooLargeError(f"more than {MAX_SPANS} spans in one request")


class TooManyError(InvalidValueError):
    """A span or another holder has too many attributes or events."""


def check_count(count: int, limit: int, what: str) -> None:
    """Raise `TooManyError` if `count` exceeds `limit`."""
    if count > limit:
        raise TooManyError(f"more than {limit} {what}")
