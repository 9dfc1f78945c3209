"""Trace export requests in OTLP's own JSON mapping: bytes in, spans out.

It differs from protobuf's mapping in that ids are hexadecimal:
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from indexing.errors import InvalidValueError
from indexing.events.json_text import decode
from indexing.otlp.requests import (
    AttributeValue,
    DamagedSpan,
    ReceivedSpan,
    RequestError,
    RequestTooLargeError,
    SpanCounter,
    read_attributes,
)

# A span has some thirty, and a stack trace some in its text. Three bytes can be an object that
# takes a hundred in memory.
MAX_BRACKETS: Final = 2_000_000

# All that is read of a span: the rest is not even looked at. OTLP takes the first names alone;
# the second ones are those of protobuf itself, which some senders use.
_NAME: Final = ("name",)
_STARTED: Final = ("startTimeUnixNano", "start_time_unix_nano")
_ENDED: Final = ("endTimeUnixNano", "end_time_unix_nano")
_PLAIN_MEMBERS: Final = (_NAME, _STARTED, _ENDED, ("attributes",), ("events",), ("status",))
_IDS: Final = (("traceId", "trace_id"), ("spanId", "span_id"))
_RESOURCE_SPANS: Final = ("resourceSpans", "resource_spans")
_SCOPE_SPANS: Final = ("scopeSpans", "scope_spans")

_SHOWN_LENGTH: Final = 200


def read_json(body: bytes) -> Iterator[ReceivedSpan | DamagedSpan]:
    """Give the spans of an `ExportTraceServiceRequest` in their order.

    Raises:
        RequestError: the bytes are no such document, or it holds too much. Spans given before it
            are not to be kept.
    """
    if body.count(b"{") + body.count(b"[") > MAX_BRACKETS:
        raise RequestTooLargeError(f"more than {MAX_BRACKETS} objects and arrays in one request")
    try:
        document: object = decode(body)
    except InvalidValueError as error:
        raise RequestError(f"the request {error}") from error
    counter = SpanCounter()
    request = _object(document, "the request")
    for place, resource_spans in _objects(request, _RESOURCE_SPANS, ""):
        resource = _read_resource(resource_spans, place)
        for scope_place, scope_spans in _objects(resource_spans, _SCOPE_SPANS, f"{place}."):
            for span_place, span in _objects(scope_spans, ("spans",), f"{scope_place}."):
                counter.add()
                yield _read_span(span_place, resource, span)


def _read_resource(resource_spans: Mapping[str, Any], place: str) -> dict[str, AttributeValue]:
    found = _member(resource_spans, ("resource",))
    if found is None:
        return {}
    resource = _object(found, f"{place}.resource")
    wanted = {"attributes": resource.get("attributes")}
    try:
        parsed = ParseDict(wanted, Resource(), ignore_unknown_fields=True)
    except ParseError as error:
        raise RequestError(f"{place}.resource: {_show(error)}") from error
    return read_attributes(parsed.attributes)


def _read_span(
    place: str, resource: dict[str, AttributeValue], span: Mapping[str, Any]
) -> ReceivedSpan | DamagedSpan:
    wanted = {names[0]: _member(span, names) for names in _PLAIN_MEMBERS}
    for names in _IDS:
        wanted[names[0]] = _to_base64(_member(span, names))
    try:
        return ReceivedSpan(place, resource, ParseDict(wanted, Span(), ignore_unknown_fields=True))
    except ParseError as error:
        return DamagedSpan(place, _show(error))


def _objects(
    holder: Mapping[str, Any], names: tuple[str, ...], within: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give the objects of an array, each with its place; an absent array has none."""
    found = _member(holder, names)
    place = within + names[0]
    if found is None:
        return
    if not isinstance(found, list):
        raise RequestError(f"{place} must be an array")
    for index, item in enumerate(found):
        yield f"{place}[{index}]", _object(item, f"{place}[{index}]")


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{place} must be an object")
    return value


def _member(holder: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Give the member of that name; null means that there is none."""
    return next((holder[name] for name in names if holder.get(name) is not None), None)


def _to_base64(hexadecimal: object) -> object:
    """Give an id as protobuf's mapping has it; what is no hexadecimal text is no id."""
    try:
        raw = bytes.fromhex(hexadecimal) if isinstance(hexadecimal, str) else b""
    except ValueError:
        raw = b""
    return base64.b64encode(raw).decode()


def _show(error: ParseError) -> str:
    """What the parser says, which may quote what it was given."""
    return ascii(str(error)[:_SHOWN_LENGTH])[1:-1]
