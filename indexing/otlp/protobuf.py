"""Trace export requests in protobuf: bytes in, spans out, one of them in memory at a time.

The outer levels are walked here rather than decoded: a decoded message of two bytes takes some
hundred, so that a small hostile body would fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from indexing.otlp.requests import (
    MAX_SPANS,
    SPAN_MAX_BYTES,
    AttributeValue,
    DamagedSpan,
    ReceivedSpan,
    RequestError,
    RequestTooLargeError,
    SpanCounter,
    read_attributes,
)

# opentelemetry/proto/collector/trace/v1/trace_service.proto and .../trace/v1/trace.proto
_REQUEST_RESOURCE_SPANS: Final = 1
_RESOURCE_SPANS_RESOURCE: Final = 1
_RESOURCE_SPANS_SCOPE_SPANS: Final = 2
_SCOPE_SPANS_SPANS: Final = 2

# https://protobuf.dev/programming-guides/encoding/#structure
_VARINT: Final = 0
_FIXED_64: Final = 1
_LENGTH_DELIMITED: Final = 2
_FIXED_32: Final = 5
_VARINT_MAX_BYTES: Final = 10

# Spans, and the scopes and resources around them, each of which has few members beside its spans.
MAX_FIELDS: Final = 4 * MAX_SPANS


def read_protobuf(body: bytes) -> Iterator[ReceivedSpan | DamagedSpan]:
    """Give the spans of an `ExportTraceServiceRequest` in their order.

    Raises:
        RequestError: the bytes are no such message, or it holds too much. Spans given before it
            are not to be kept.
    """
    walk = _Walk()
    counter = SpanCounter()
    whole = memoryview(body)
    for at, resource_spans in enumerate(walk.members(whole, _REQUEST_RESOURCE_SPANS)):
        resource = _read_resource(walk, resource_spans, at)
        scopes = walk.members(resource_spans, _RESOURCE_SPANS_SCOPE_SPANS)
        for scope_at, scope_spans in enumerate(scopes):
            for span_at, span in enumerate(walk.members(scope_spans, _SCOPE_SPANS_SPANS)):
                counter.add()
                place = f"resourceSpans[{at}].scopeSpans[{scope_at}].spans[{span_at}]"
                yield _read_span(place, resource, span)


def _read_resource(walk: _Walk, data: memoryview, at: int) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    # A member that is given twice is one message in two pieces.
    for piece in walk.members(data, _RESOURCE_SPANS_RESOURCE):
        if len(piece) > SPAN_MAX_BYTES:
            raise RequestTooLargeError(
                f"resourceSpans[{at}].resource has more than {SPAN_MAX_BYTES} bytes"
            )
        try:
            resource = Resource.FromString(bytes(piece))
        except DecodeError as error:
            raise RequestError(f"resourceSpans[{at}].resource is not valid protobuf") from error
        attributes |= read_attributes(resource.attributes)
    return attributes


def _read_span(
    place: str, resource: dict[str, AttributeValue], data: memoryview
) -> ReceivedSpan | DamagedSpan:
    if len(data) > SPAN_MAX_BYTES:
        return DamagedSpan(place, f"the span has more than {SPAN_MAX_BYTES} bytes")
    try:
        return ReceivedSpan(place, resource, Span.FromString(bytes(data)))
    except DecodeError:
        return DamagedSpan(place, "the span is not valid protobuf")


class _Walk:
    """Goes through the members of messages, of one request's no more than `MAX_FIELDS`."""

    def __init__(self) -> None:
        self._fields = 0

    def members(self, data: memoryview, wanted: int) -> Iterator[memoryview]:
        """Give the messages under that number, passing over all other members."""
        at = 0
        while at < len(data):
            self._fields += 1
            if self._fields > MAX_FIELDS:
                raise RequestTooLargeError(f"more than {MAX_FIELDS} members in one request")
            tag, at = _read_varint(data, at)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                _, at = _read_varint(data, at)
                continue
            if kind == _LENGTH_DELIMITED:
                length, at = _read_varint(data, at)
            elif kind in (_FIXED_32, _FIXED_64):
                length = 4 if kind == _FIXED_32 else 8
            else:
                raise RequestError("not valid protobuf: a member of an unknown kind")
            if length > len(data) - at:
                raise RequestError("not valid protobuf: a member is longer than what holds it")
            if number == wanted and kind == _LENGTH_DELIMITED:
                yield data[at : at + length]
            at += length


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Give the number that begins there, and where the next thing begins."""
    value = 0
    for index, byte in enumerate(data[at : at + _VARINT_MAX_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise RequestError("not valid protobuf: a number does not end")
