"""Parses trace export requests in OTLP's JSON mapping: bytes in, spans out.

It is protobuf's mapping with hexadecimal ids; unknown members are ignored:
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
protobuf's own JSON parser takes four times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from indexing.errors import InvalidValueError
from indexing.events.json_text import decode, has_more_values
from indexing.otlp.attributes import EXCEPTION_EVENT
from indexing.otlp.requests import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    Attributes,
    AttributeValue,
    DamagedSpan,
    ReceivedSpan,
    RequestError,
    RequestTooLargeError,
    SpanCounter,
    TooManyError,
    check_count,
)

# Each value comes with a comma or a bracket; a span has some seventy values. The parser reads a
# document in one go and lets no other thread run, and a value of three bytes can take a hundred in
# memory: this many values take some tenths of a second.
MAX_VALUES: Final = 400_000

_HEXADECIMAL: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_OK_CODES: Final = (1, "STATUS_CODE_OK")
_ERROR_CODES: Final = (2, "STATUS_CODE_ERROR")
_MAX_UNSIGNED: Final = 2**64 - 1
_MAX_DIGITS: Final = 20


def read_json(body: bytes) -> Iterator[ReceivedSpan | DamagedSpan]:
    """Yield the spans of an `ExportTraceServiceRequest` in order.

    Raises:
        RequestError: the bytes are no such document, or it exceeds a limit. Discard the spans
            yielded before the error.
    """
    if has_more_values(body, MAX_VALUES):
        raise RequestTooLargeError(f"more than {MAX_VALUES} values in one request")
    try:
        document: object = decode(body)
    except InvalidValueError as error:
        raise RequestError(f"the request {error}") from error
    if not isinstance(document, dict):
        raise RequestError("the request must be an object")
    counter = SpanCounter()
    try:
        for place, resource_spans in _objects(document, "resourceSpans"):
            resource = _read_resource(resource_spans, place)
            for scope_place, scope in _objects(resource_spans, "scopeSpans", f"{place}."):
                for span_place, span in _objects(scope, "spans", f"{scope_place}."):
                    counter.add()
                    yield _read_span(span_place, resource, span)
    except RequestError:
        raise
    except InvalidValueError as error:
        raise RequestError(str(error)) from error


def _read_resource(resource_spans: Mapping[str, Any], place: str) -> Attributes:
    resource = _object(resource_spans.get("resource"), f"{place}.resource")
    try:
        return _read_attributes(resource)
    except TooManyError as error:
        raise RequestTooLargeError(f"{place}.resource has {error}") from error
    except InvalidValueError as error:
        raise RequestError(f"{place}.resource: {error}") from error


def _read_span(
    place: str, resource: Attributes, span: Mapping[str, Any]
) -> ReceivedSpan | DamagedSpan:
    try:
        status = _object(span.get("status"), "status")
        return ReceivedSpan(
            place=place,
            resource=resource,
            name=_text(span, "name"),
            trace_id=_id(span, "traceId"),
            span_id=_id(span, "spanId"),
            started=_time(span, "startTimeUnixNano"),
            ended=_time(span, "endTimeUnixNano"),
            is_ok=status.get("code") in _OK_CODES,
            is_error=status.get("code") in _ERROR_CODES,
            status_message=_text(status, "message"),
            attributes=_read_attributes(span),
            exception=_read_exception(span),
        )
    except InvalidValueError as error:
        return DamagedSpan(place, str(error))


def _read_exception(span: Mapping[str, Any]) -> Attributes:
    events = _array(span, "events")
    check_count(len(events), MAX_EVENTS, "events")
    for event in reversed(events):
        fields = _object(event, "an event")
        if fields.get("name") == EXCEPTION_EVENT:
            return _read_attributes(fields)
    return {}


def _read_attributes(holder: Mapping[str, Any]) -> Attributes:
    """Return the attributes with a plain value; the last one of a name wins."""
    pairs = _array(holder, "attributes")
    check_count(len(pairs), MAX_ATTRIBUTES, "attributes")
    found: dict[str, AttributeValue] = {}
    for each in pairs:
        pair = _object(each, "an attribute")
        value = _read_value(_object(pair.get("value"), "the value of an attribute"))
        if value is not None:
            found[_text(pair, "key")] = value
    return found


def _read_value(value: Mapping[str, Any]) -> AttributeValue | None:
    """Return a plain value; `None` for lists, maps and bytes, which are not used here."""
    if value.get("stringValue") is not None:
        return _text(value, "stringValue")
    if value.get("intValue") is not None:
        return _integer(value, "intValue")
    plain: object = value.get("boolValue")
    if isinstance(plain, bool):
        return plain
    double: object = value.get("doubleValue")
    if isinstance(double, bool):
        raise InvalidValueError("doubleValue must be a number")
    # A double that JSON cannot express, such as NaN, is written as text. An integer may be beyond
    # the range of doubles, for which `float` raises an error unless it reads text.
    return float(str(double)) if isinstance(double, float | int) else None


def _objects(
    holder: Mapping[str, Any], name: str, within: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of an array, each with its position."""
    for index, item in enumerate(_array(holder, name, within)):
        place = f"{within}{name}[{index}]"
        if item is None:
            raise RequestError(f"{place} must be an object")
        yield place, _object(item, place)


def _array(holder: Mapping[str, Any], name: str, within: str = "") -> Sequence[Any]:
    value: object = holder.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidValueError(f"{within}{name} must be an array")
    return value


def _object(value: object, place: str) -> Mapping[str, Any]:
    """Return the object; null means an empty one, as it does for every member of a message."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidValueError(f"{place} must be an object")
    return value


def _text(holder: Mapping[str, Any], name: str) -> str:
    value: object = holder.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidValueError(f"{name} must be text")
    return value


def _integer(holder: Mapping[str, Any], name: str) -> int:
    """Return a whole number, written as a number or as text."""
    value: object = holder.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and value.isascii():
        digits = value.removeprefix("-")
        value = int(value) if digits.isdigit() else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValueError(f"{name} must be a whole number")
    return value


def _time(holder: Mapping[str, Any], name: str) -> int:
    value = _integer(holder, name)
    if not 0 <= value <= _MAX_UNSIGNED:
        raise InvalidValueError(f"{name} must be 0 to {_MAX_UNSIGNED}")
    return value


def _id(holder: Mapping[str, Any], name: str) -> bytes:
    """Return the bytes of an id; the code that uses it checks the length."""
    try:
        text = _text(holder, name)
        if not _HEXADECIMAL.fullmatch(text):
            raise ValueError("`fromhex` passes blanks over")
        return bytes.fromhex(text)
    except ValueError as error:
        raise InvalidValueError(f"{name} must be hexadecimal") from error
