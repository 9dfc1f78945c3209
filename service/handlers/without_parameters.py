"""Lets operations without parameters name, in a header, every parameter of a request."""

from __future__ import annotations

from aiohttp import web
from aiohttp.web import StreamResponse

from service.http.query_string import IGNORED_HEADER, name_ignored, split
from service.middleware.layer import RouteHandler


def find_ignored(request: web.Request) -> str | None:
    """Return the header that names all parameters of a request whose operation has none."""
    raw_query = request.rel_url.raw_query_string
    return name_ignored(split(raw_query, ())[1]) if raw_query else None


def without_parameters(handler: RouteHandler) -> RouteHandler:
    """Wrap a handler, to name all parameters of the request in a header."""

    async def answer(request: web.Request) -> StreamResponse:
        response = await handler(request)
        ignored = find_ignored(request)
        if ignored is not None:
            response.headers[IGNORED_HEADER] = ignored
        return response

    return answer
