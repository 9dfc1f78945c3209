"""Parses trace export requests in protobuf: bytes in, spans out, one span in memory at a time.

The outer levels are walked rather than decoded: a message of two bytes takes some hundred bytes
once decoded, so a small hostile body could fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from indexing.errors import InvalidValueError
from indexing.otlp.attributes import EXCEPTION_EVENT
from indexing.otlp.requests import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    MAX_SPANS,
    SPAN_MAX_BYTES,
    Attributes,
    AttributeValue,
    DamagedSpan,
    ReceivedSpan,
    RequestError,
    RequestTooLargeError,
    SpanCounter,
    check_count,
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

# Room for spans and for the scopes and resources around them, which have few other members.
MAX_FIELDS: Final = 4 * MAX_SPANS


def read_protobuf(body: bytes) -> Iterator[ReceivedSpan | DamagedSpan]:
    """Yield the spans of an `ExportTraceServiceRequest` in order.

    Raises:
        RequestError: the bytes are no such message, or it exceeds a limit. Discard the spans
            yielded before the error.
    """
    reader = _MemberReader()
    counter = SpanCounter()
    whole = memoryview(body)
    for at, resource_spans in enumerate(reader.members(whole, _REQUEST_RESOURCE_SPANS)):
        resource = _read_resource(reader, resource_spans, at)
        scopes = reader.members(resource_spans, _RESOURCE_SPANS_SCOPE_SPANS)
        for scope_at, scope_spans in enumerate(scopes):
            for span_at, span in enumerate(reader.members(scope_spans, _SCOPE_SPANS_SPANS)):
                counter.add()
                place = f"resourceSpans[{at}].scopeSpans[{scope_at}].spans[{span_at}]"
                yield _read_span(place, resource, span)


def _read_resource(reader: _MemberReader, data: memoryview, at: int) -> Attributes:
    attributes: dict[str, AttributeValue] = {}
    # If a member occurs twice, protobuf merges both into one message.
    for piece in reader.members(data, _RESOURCE_SPANS_RESOURCE):
        try:
            check_count(len(piece), SPAN_MAX_BYTES, "bytes")
            attributes |= _read_attributes(Resource.FromString(bytes(piece)).attributes)
        except DecodeError as error:
            raise RequestError(f"resourceSpans[{at}].resource is not valid protobuf") from error
        except InvalidValueError as error:
            raise RequestTooLargeError(f"resourceSpans[{at}].resource has {error}") from error
    return attributes


def _read_span(place: str, resource: Attributes, data: memoryview) -> ReceivedSpan | DamagedSpan:
    try:
        check_count(len(data), SPAN_MAX_BYTES, "bytes")
        span = Span.FromString(bytes(data))
        check_count(len(span.events), MAX_EVENTS, "events")
        return ReceivedSpan(
            place=place,
            resource=resource,
            name=span.name,
            trace_id=span.trace_id,
            span_id=span.span_id,
            started=span.start_time_unix_nano,
            ended=span.end_time_unix_nano,
            is_ok=span.status.code == Status.STATUS_CODE_OK,
            is_error=span.status.code == Status.STATUS_CODE_ERROR,
            status_message=span.status.message,
            attributes=_read_attributes(span.attributes),
            exception=_read_exception(span),
        )
    except DecodeError:
        return DamagedSpan(place, "not valid protobuf")
    except InvalidValueError as error:
        return DamagedSpan(place, str(error))


def _read_exception(span: Span) -> Attributes:
    for event in reversed(span.events):
        if event.name == EXCEPTION_EVENT:
            return _read_attributes(event.attributes)
    return {}


def _read_attributes(pairs: Sequence[KeyValue]) -> dict[str, AttributeValue]:
    """Return the attributes with a plain value; the last one of a name wins."""
    check_count(len(pairs), MAX_ATTRIBUTES, "attributes")
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


class _MemberReader:
    """Reads the members of messages, at most `MAX_FIELDS` for one request."""

    def __init__(self) -> None:
        self._fields = 0

    def members(self, data: memoryview, wanted: int) -> Iterator[memoryview]:
        """Yield the messages with that field number and skip all other members."""
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
    """Return the number that begins at `at`, and the position behind it."""
    value = 0
    for index, byte in enumerate(data[at : at + _VARINT_MAX_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise RequestError("not valid protobuf: a number does not end")
