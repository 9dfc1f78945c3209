"""Fixtures: a traced service, and the spans that it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, format_span_id, format_trace_id

from indexing.models.keys import Scope
from service.config.settings import Settings
from service.tracing.tracing import Tracing
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor


@dataclass
class Spans:
    """The spans that the service has ended."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def take(self) -> list[ReadableSpan]:
        """Return the spans that have ended since the last call, in the order of their end."""
        found = list(self.exporter.get_finished_spans())
        self.exporter.clear()
        return found

    def take_request(self) -> tuple[ReadableSpan, list[ReadableSpan]]:
        """Return the span of the only request since the last call, and its child spans."""
        *parts, request = self.take()
        assert request.kind is SpanKind.SERVER
        assert {part.kind for part in parts} <= {SpanKind.CLIENT}
        return request, parts


def open_tracing(spans: Spans, *, root_ratio: float = 1, takes_parents: bool = True) -> Tracing:
    sampler = ParentBased(TraceIdRatioBased(root_ratio))
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans.exporter))
    return Tracing(provider, takes_parents=takes_parents)


@pytest.fixture
def spans() -> Spans:
    return Spans()


@asynccontextmanager
async def open_traced(settings: Settings, tracing: Tracing) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(settings, tracing):
        opened.key = await opened.new_key(Scope.ADMIN)
        yield opened


@pytest.fixture
async def traced(tmp_path: Path, spans: Spans) -> AsyncIterator[FrontDoor]:
    """A traced service that accepts results."""
    settings = Settings(data_dir=tmp_path, ingest=True)
    async with open_traced(settings, open_tracing(spans)) as opened:
        yield opened


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def is_request(span: ReadableSpan) -> bool:
    return span.kind is SpanKind.SERVER


def is_root(span: ReadableSpan) -> bool:
    return span.parent is None


def ids_of(span: ReadableSpan) -> tuple[str, str]:
    return format_trace_id(span.context.trace_id), format_span_id(span.context.span_id)
