"""Cross-origin reads by pages in a browser, from the origins that the operator names.

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse

from service.http.query_string import IGNORED_HEADER
from service.http.response_headers import REQUEST_ID_HEADER
from service.middleware.layer import Handler
from service.middleware.rate_limit import LIMIT_HEADER, POLICY_HEADER
from service.routes import LAST_EVENT_ID

ANY: Final = "*"
# The headers that a page may read.
_EXPOSED: Final = ", ".join(
    (
        "ETag",
        "Link",
        LIMIT_HEADER,
        POLICY_HEADER,
        "Retry-After",
        IGNORED_HEADER,
        REQUEST_ID_HEADER,
    )
)
# Only reads: no page should hold a key that writes.
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": (
        f"Authorization, If-None-Match, {LAST_EVENT_ID}, {REQUEST_ID_HEADER}"
    ),
    "Access-Control-Max-Age": "600",
}


class Cors:
    """Tells browsers which origins may read. Requests with cookies are not allowed."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    def wrap(self, handler: Handler) -> Handler:
        """Wrap the handler: answer preflight requests, and add the headers to all responses."""

        async def answer(request: BaseRequest) -> StreamResponse:
            origin = request.headers.get("Origin")
            allowed = origin if origin in self._origins or ANY in self._origins else None
            is_preflight = "Access-Control-Request-Method" in request.headers
            if request.method == "OPTIONS" and allowed is not None and is_preflight:
                response: StreamResponse = web.Response(status=204, headers=_PREFLIGHT)
            else:
                response = await handler(request)
            self._add_headers(response, allowed)
            return response

        return answer

    def _add_headers(self, response: StreamResponse, allowed: str | None) -> None:
        if ANY in self._origins:
            response.headers["Access-Control-Allow-Origin"] = ANY
        else:
            # A response to one origin is not reused for another.
            response.headers.add("Vary", "Origin")
            if allowed is None:
                return
            response.headers["Access-Control-Allow-Origin"] = allowed
        response.headers["Access-Control-Expose-Headers"] = _EXPOSED
