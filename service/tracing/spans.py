"""What all spans have in common: calls to other systems, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, get_current_span


def is_traced() -> bool:
    """Whether the current context belongs to a sampled trace.

    Calls are traced only as parts of a request: background work, such as polling the store, would
    be one trace after another. The request may have been answered already.
    """
    return get_current_span().get_span_context().trace_flags.sampled


@contextmanager
def call_span(tracer: Tracer, name: str, attributes: Mapping[str, str]) -> Iterator[Span]:
    """Make a span of a call to another system, as a part of the current span."""
    with tracer.start_as_current_span(
        name,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        # The text of an error may contain what was sent.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def mark_failed(span: Span, error: BaseException) -> None:
    """Set the type of the error. A client that did not wait for its response is no failure."""
    span.set_attribute(ERROR_TYPE, type(error).__qualname__)
    if not isinstance(error, (asyncio.CancelledError, ConnectionError)):
        span.set_status(StatusCode.ERROR)
