"""Records a span for each repeated request, which is answered before it is parsed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp.web import BaseRequest, StreamResponse
from opentelemetry.context import Context
from opentelemetry.util.types import AttributeValue

from indexing.lru import Lru
from service.http.response_headers import REQUEST_ID_HEADER
from service.middleware.fair_queue import FairQueue
from service.middleware.response_cache import (
    HEAD_SECONDS,
    HEADS_MAX_BYTES,
    Count,
    RepeatedRequests,
    ResponseCache,
)
from service.tracing.request_spans import (
    REQUEST_ID_ATTRIBUTE,
    RequestSpans,
    describe,
    mark_status,
)


@dataclass(frozen=True, slots=True)
class _Described:
    """What was learnt about a head for its span when it was parsed."""

    parent: Context
    name: str
    attributes: dict[str, AttributeValue]


class TracedRepeatedRequests(RepeatedRequests):
    """Answers a known head as its base class does, and records a span."""

    def __init__(
        self,
        spans: RequestSpans,
        cache: ResponseCache,
        queue: FairQueue,
        make_request_id: Callable[[], str],
        count: Count | None,
    ) -> None:
        super().__init__(cache, queue, make_request_id, count)
        self._spans = spans
        self._described: Lru[_Described] = Lru(HEADS_MAX_BYTES)

    def answer(self, head: bytes) -> bytes | None:
        """Return what the base class does; also `None` if the head's span cannot be described."""
        described = self._described.find(head)
        if described is None:
            return None
        began = time.time_ns()
        text = super().answer(head)
        if text is not None:
            span = self._spans.record(described.parent, described.name, described.attributes, began)
            if span.is_recording():
                mark_status(span, _read_status(text))
                span.set_attribute(REQUEST_ID_ATTRIBUTE, (_read_request_id(text),))
            span.end()
        return text

    def learn(self, head: bytes, request: BaseRequest, response: StreamResponse) -> None:
        """Learn the head as the base class does, and keep the description of its span."""
        super().learn(head, request, response)
        if self._known.find(head) is None:
            return
        parent = self._spans.find_parent(request.headers)
        described = _Described(parent, *describe(request))
        self._described.keep(head, described, 0, time.monotonic() + HEAD_SECONDS)


_STATUS = slice(len("HTTP/1.1 "), len("HTTP/1.1 200"))
_ID_FIELD = f"{REQUEST_ID_HEADER}: ".encode()


def _read_status(text: bytes) -> int:
    return int(text[_STATUS])


def _read_request_id(text: bytes) -> str:
    # It is the last field of the head, and no other field can contain this text with a line break.
    begin = text.index(b"\r\n" + _ID_FIELD) + len(b"\r\n" + _ID_FIELD)
    return text[begin : text.index(b"\r\n", begin)].decode()
