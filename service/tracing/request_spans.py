"""The span of each request, as a part of the trace that its `traceparent` names.

https://opentelemetry.io/docs/specs/semconv/http/http-spans/ defines the attributes. Queries,
headers and addresses of clients are left out: they contain test names, credentials or personal
data.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from aiohttp import web
from aiohttp.web import BaseRequest, RequestKey, StreamResponse
from multidict import CIMultiDictProxy
from opentelemetry.context import Context, attach, detach
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.http_attributes import (
    HTTP_REQUEST_METHOD,
    HTTP_RESPONSE_HEADER_TEMPLATE,
    HTTP_RESPONSE_STATUS_CODE,
    HTTP_ROUTE,
)
from opentelemetry.semconv.attributes.network_attributes import NETWORK_PROTOCOL_VERSION
from opentelemetry.semconv.attributes.url_attributes import URL_PATH, URL_SCHEME
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from service.http.request_id import REQUEST_ID
from service.http.response_headers import REQUEST_ID_HEADER
from service.http.targets import MONITORING
from service.logs import mask_path
from service.middleware.layer import Handler
from service.middleware.response_cache import CACHE_KEY
from service.routes import EVENT_STREAM_TYPE, READ_ROUTES, name_operation
from service.streaming.response import StreamedResponse
from service.tracing.spans import mark_failed

# W3C Trace Context: a `tracestate` of this length must be accepted. A `traceparent` is shorter.
MAX_HEADER_LENGTH: Final = 512
MAX_PATH_LENGTH: Final = 1_024

REQUEST_ID_ATTRIBUTE: Final = f"{HTTP_RESPONSE_HEADER_TEMPLATE}.{REQUEST_ID_HEADER.lower()}"
# Whether the response cache answered.
CACHED: Final = "mergewatch.response_cache.hit"

_METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
)
_OTHER_METHOD: Final = "_OTHER"

# A request that the cache answers does not reach the router.
_URLS: Final = {route.operation.value: route.url for route in READ_ROUTES}

_FIRST_ERROR: Final = 500

_ROUTE: Final = RequestKey("route", str)

_propagator: Final = TraceContextTextMapPropagator()


class RequestSpans:
    """Traces the requests of a process; with `takes_parents`, as parts of their clients' traces."""

    def __init__(self, tracer: Tracer, *, takes_parents: bool) -> None:
        self._tracer = tracer
        self.takes_parents = takes_parents

    def wrap(self, handler: Handler) -> Handler:
        """Wrap the outermost layer: the span ends when the response is ready, or streamed."""

        async def answer(request: BaseRequest) -> StreamResponse:
            if request.raw_path in MONITORING:
                return await handler(request)
            parent = self.find_parent(request.headers)
            span = self._tracer.start_span("HTTP", context=parent, kind=SpanKind.SERVER)
            token = attach(set_span_in_context(span))
            response: StreamResponse | None = None
            try:
                response = await handler(request)
            except BaseException as error:
                mark_failed(span, error)
                raise
            else:
                mark_status(span, response.status)
                return response
            finally:
                detach(token)
                if span.is_recording():
                    name, attributes = describe(request)
                    span.update_name(name)
                    span.set_attributes(attributes)
                if isinstance(response, StreamedResponse) and _has_end(response):
                    response.around = _Streaming(span)
                else:
                    span.end()

        return answer

    def record(
        self, parent: Context, name: str, attributes: dict[str, AttributeValue], began: int
    ) -> Span:
        """Start the span of a request that was answered; `began` is in nanoseconds."""
        span = self._tracer.start_span(name, context=parent, kind=SpanKind.SERVER, start_time=began)
        span.set_attributes(attributes)
        return span

    def find_parent(self, headers: CIMultiDictProxy[str]) -> Context:
        """Return the parent span that a request names; empty if that is missing or malformed."""
        given = headers.getall("traceparent", ()) if self.takes_parents else ()
        if len(given) != 1 or len(given[0]) > MAX_HEADER_LENGTH:
            return Context()
        carrier = {"traceparent": given[0]}
        state = ",".join(headers.getall("tracestate", ()))
        if 0 < len(state) <= MAX_HEADER_LENGTH:
            carrier["tracestate"] = state
        return _propagator.extract(carrier, Context())


class _Streaming:
    """Makes a streamed response a part of its span, which ends with it."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        self._token = attach(set_span_in_context(self._span))

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        detach(self._token)
        if error is not None:
            mark_failed(self._span, error)
        self._span.end()


def _has_end(response: StreamResponse) -> bool:
    # A stream of events lasts for hours, and a span is exported only when it has ended.
    return response.content_type != EVENT_STREAM_TYPE


def note_route(handler: Handler) -> Handler:
    """Wrap the router: set on the request which route it chose."""

    async def answer(request: BaseRequest) -> StreamResponse:
        try:
            return await handler(request)
        finally:
            if isinstance(request, web.Request):
                resource = request.match_info.route.resource
                if resource is not None:
                    request[_ROUTE] = resource.canonical

    return answer


def describe(request: BaseRequest) -> tuple[str, dict[str, AttributeValue]]:
    """Return the name and the attributes of the span of a request that was answered."""
    method = request.method if request.method in _METHODS else _OTHER_METHOD
    path = request.raw_path[:MAX_PATH_LENGTH].partition("?")[0]
    attributes: dict[str, AttributeValue] = {
        HTTP_REQUEST_METHOD: method,
        URL_SCHEME: request.scheme,
        URL_PATH: _clean(mask_path(path)),
        NETWORK_PROTOCOL_VERSION: f"{request.version.major}.{request.version.minor}",
    }
    request_id = request.get(REQUEST_ID)
    if request_id is not None:
        attributes[REQUEST_ID_ATTRIBUTE] = (request_id,)
    route = request.get(_ROUTE)
    if CACHE_KEY in request:
        attributes[CACHED] = True
        route = _URLS.get(name_operation(method, request.raw_path))
    if route is None:
        return "HTTP" if method == _OTHER_METHOD else method, attributes
    attributes[HTTP_ROUTE] = route
    return f"{method} {route}", attributes


def mark_status(span: Span, status: int) -> None:
    """Set the status of the response on the span. A refused request has not failed."""
    span.set_attribute(HTTP_RESPONSE_STATUS_CODE, status)
    if status >= _FIRST_ERROR:
        span.set_attribute(ERROR_TYPE, str(status))
        span.set_status(StatusCode.ERROR)


def _clean(text: str) -> str:
    # Bytes that are not UTF-8 came as surrogates, which no exporter can encode.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
