"""What all spans have in common: how they fail, and how a call becomes one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, get_current_span


def is_traced() -> bool:
    """Whether what goes on belongs to a sampled trace.

    Calls are traced as parts of a request alone: what a process does by itself, such as polling the
    store, would be one trace after another. The request may have been answered already.
    """
    return get_current_span().get_span_context().trace_flags.sampled


@contextmanager
def call_span(tracer: Tracer, name: str, attributes: Mapping[str, str]) -> Iterator[Span]:
    """A span of a call to another system, as a part of the current one."""
    with tracer.start_as_current_span(
        name,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        # The text of an error may hold what was sent.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def mark_failed(span: Span, error: BaseException) -> None:
    """Note the kind of the error. It is no failure that a client did not wait for the answer."""
    span.set_attribute(ERROR_TYPE, type(error).__qualname__)
    if not isinstance(error, (asyncio.CancelledError, ConnectionError)):
        span.set_status(StatusCode.ERROR)
