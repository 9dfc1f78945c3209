"""Reads a single span, as a request has it."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from indexing.models.executions import Execution, Run
from indexing.otlp.protobuf import read_protobuf
from indexing.otlp.requests import ReceivedSpan
from indexing.otlp.spans import to_execution
from tests.builders import NOON, WIDGETS
from tests.spans import make_request


def read(span: Span, **resource: Any) -> tuple[Run, Execution] | None:
    (received,) = read_protobuf(make_request([span], resource).SerializeToString())
    assert isinstance(received, ReceivedSpan), received
    return to_execution(WIDGETS, received, NOON)


def read_execution(span: Span) -> Execution:
    found = read(span)
    assert found is not None
    return found[1]
