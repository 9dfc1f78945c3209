"""What a trace export request gives, span by span, and the limits of it; nothing is read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from indexing.errors import InvalidValueError

# SDKs send 512 spans at a time, collectors some thousands. Two bytes can be a span, so that the
# size of a request alone does not bound the work that it makes.
MAX_SPANS: Final = 50_000

# Enough for any stack trace with all that is beside it. Two bytes can be an attribute that takes a
# hundred in memory, and one span at a time is held.
SPAN_MAX_BYTES: Final = 1024 * 1024

AttributeValue = str | bool | int | float


class RequestError(InvalidValueError):
    """A request cannot be read at all; the text says where and why."""


class RequestTooLargeError(RequestError):
    """A request holds more than one request may."""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span where it stood, with the attributes of its resource."""

    place: str
    resource: Mapping[str, AttributeValue]
    span: Span


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """A span that could not be decoded; the rest of its request could."""

    place: str
    reason: str


def read_attributes(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    """Give the attributes that have a plain value; the last one of a name counts."""
    found: dict[str, AttributeValue] = {}
    for pair in pairs:
        value = pair.value
        kind = value.WhichOneof("value")
        if kind == "string_value":
            found[pair.key] = value.string_value
        elif kind == "int_value":
            found[pair.key] = value.int_value
        elif kind == "bool_value":
            found[pair.key] = value.bool_value
        elif kind == "double_value":
            found[pair.key] = value.double_value
    return found


class SpanCounter:
    """Counts the spans of one request."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one more; raises `RequestTooLargeError` where that is one too many."""
        self._count += 1
        if self._count > MAX_SPANS:
            raise RequestTooLargeError(f"more than {MAX_SPANS} spans in one request")
