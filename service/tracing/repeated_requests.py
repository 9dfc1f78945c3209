"""Records a span for each repeated request, which is answered before it is parsed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from aiohttp.web import BaseRequest, StreamResponse
from opentelemetry.context import Context
from opentelemetry.util.types import AttributeValue

from indexing.lru import Lru
from service.http.response_headers import REQUEST_ID_HEADER
from service.http.unparsed import KNOWN_MAX_BYTES, KNOWN_SECONDS, RepeatedRequests
from service.tracing.request_spans import (
    REQUEST_ID_ATTRIBUTE,
    RequestSpans,
    describe,
    mark_status,
)

# Where the status is in a response, and what precedes the request id.
_STATUS: Final = slice(len("HTTP/1.1 "), len("HTTP/1.1 200"))
_ID_FIELD: Final = f"\r\n{REQUEST_ID_HEADER}: ".encode()


@dataclass(frozen=True, slots=True)
class _Described:
    """What was learnt about a head for its span when it was parsed."""

    parent: Context
    name: str
    attributes: dict[str, AttributeValue]


class TracedRepeatedRequests:
    """Answers a known head as `known` does, and records a span."""

    def __init__(self, spans: RequestSpans, known: RepeatedRequests) -> None:
        self._spans = spans
        self._known = known
        self._described: Lru[_Described] = Lru(KNOWN_MAX_BYTES)

    def digest(self, data: bytes) -> bytes | None:
        """Return what `known` does."""
        return self._known.digest(data)

    def knows(self, head: bytes) -> bool:
        """Return what `known` does."""
        return self._known.knows(head)

    def answer(self, head: bytes) -> bytes | None:
        """Return what `known` does; also `None` if the head's span cannot be described."""
        described = self._described.find(head)
        if described is None:
            return None
        began = time.time_ns()
        text = self._known.answer(head)
        if text is not None:
            span = self._spans.record(described.parent, described.name, described.attributes, began)
            if span.is_recording():
                mark_status(span, _read_status(text))
                span.set_attribute(REQUEST_ID_ATTRIBUTE, (_read_request_id(text),))
            span.end()
        return text

    def learn(self, head: bytes, request: BaseRequest, response: StreamResponse) -> None:
        """Learn the head as `known` does, and keep the description of its span."""
        self._known.learn(head, request, response)
        if not self._known.knows(head):
            return
        parent = self._spans.find_parent(request.headers)
        described = _Described(parent, *describe(request))
        self._described.keep(head, described, 0, time.monotonic() + KNOWN_SECONDS)


def _read_status(text: bytes) -> int:
    return int(text[_STATUS])


def _read_request_id(text: bytes) -> str:
    # It is the last field of the head, and no other field can contain this text with a line break.
    begin = text.index(_ID_FIELD) + len(_ID_FIELD)
    return text[begin : text.index(b"\r\n", begin)].decode()
