"""Builders of trace export requests, with defaults for everything a test does not care about."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from indexing.timestamps import to_microseconds
from tests.builders import NOON

RESOURCE: Final[Mapping[str, Any]] = {
    "cicd.pipeline.name": "ci",
    "cicd.pipeline.task.name": "unit",
    "cicd.pipeline.run.id": 1,
    "vcs.ref.head.name": "main",
    "vcs.ref.head.revision": "c0ffee",
}
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"

_numbers = itertools.count(1)


def make_attributes(values: Mapping[str, Any]) -> list[KeyValue]:
    """Attributes of plain values; those with the value `None` are omitted."""
    return [KeyValue(key=k, value=make_value(v)) for k, v in values.items() if v is not None]


def make_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=value)


def make_span(
    name: str = "hinge",
    result: str | None = "passed",
    at: datetime = NOON,
    *,
    seconds: float = 1.0,
    attributes: Mapping[str, Any] | None = None,
    **members: Any,
) -> Span:
    """The span of one test; its ids are unique unless they are given."""
    number = next(_numbers)
    end = to_microseconds(at) * 1_000
    about = {"test.scope": "case", "test.case.result.status": result, **(attributes or {})}
    return Span(
        **{
            "trace_id": number.to_bytes(16, "big"),
            "span_id": number.to_bytes(8, "big"),
            "name": name,
            "start_time_unix_nano": end - int(seconds * 1e9),
            "end_time_unix_nano": end,
            "attributes": make_attributes(about),
            **members,
        }
    )


def make_request(
    spans: Sequence[Span], resource: Mapping[str, Any] | None = None
) -> ExportTraceServiceRequest:
    about = make_attributes({**RESOURCE, **(resource or {})})
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=about), scope_spans=[ScopeSpans(spans=spans)]
            )
        ]
    )


def write_json(request: ExportTraceServiceRequest) -> bytes:
    """The request in OTLP's own JSON mapping."""
    document = MessageToDict(request)
    messages = itertools.chain.from_iterable(r.scope_spans for r in request.resource_spans)
    for scope, written in zip(messages, _written_scopes(document), strict=True):
        for span, members in zip(scope.spans, written["spans"], strict=True):
            members["traceId"], members["spanId"] = span.trace_id.hex(), span.span_id.hex()
    return orjson.dumps(document)


def write(request: ExportTraceServiceRequest, kind: str) -> bytes:
    """The request in the encoding of that media type."""
    return request.SerializeToString() if kind == PROTOBUF else write_json(request)


def _written_scopes(document: Any) -> list[Any]:
    return [scope for r in document.get("resourceSpans", ()) for scope in r["scopeSpans"]]
