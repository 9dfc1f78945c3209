"""Adds the ids of spans to log lines, and drops most log lines of the SDK."""

from __future__ import annotations

import logging
import time
from typing import Final

from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

from service.logs import Line

_SDK: Final = "opentelemetry."
_OF_HEADERS: Final = "opentelemetry.util.re"
_BAD_HEADERS: Final = "malformed headers in OTEL_EXPORTER_OTLP_HEADERS"
# The SDK logs an unreachable collector with every attempt, and a malformed header with every
# request.
SECONDS_BETWEEN_LINES: Final = 60.0


def add_span(line: Line) -> None:
    """Add `trace_id` and `span_id` of the current span to a log line, if there is one."""
    context = get_current_span().get_span_context()
    if context.is_valid:
        line.setdefault("trace_id", format_trace_id(context.trace_id))
        line.setdefault("span_id", format_span_id(context.span_id))


class FewLines(logging.Filter):
    """Drops the lines of a logger of the SDK within a minute after its last one.

    A line about malformed headers for the collector is replaced: it may quote a credential.
    """

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        if not record.name.startswith(_SDK):
            return True
        now = time.monotonic()
        if now < self._next.get(record.name, now):
            return False
        self._next[record.name] = now + SECONDS_BETWEEN_LINES
        if record.name == _OF_HEADERS:
            record.msg, record.args = _BAD_HEADERS, ()
        return True
