"""Reads the query parameters of operations without pages, most of which have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web
from aiohttp.web import StreamResponse

from service.http import problems
from service.http.query_string import (
    IGNORED_HEADER,
    FindErrors,
    find_none,
    load,
    name_ignored,
    split,
)
from service.http.route import QueryRoute
from service.middleware.layer import RouteHandler


def read_parameters(
    request: web.Request, route: QueryRoute, find_errors: FindErrors = find_none
) -> tuple[Mapping[str, Any], str | None]:
    """Return the parameters of an operation, and the header that names all others.

    `find_errors` finds the errors that the schema cannot find.

    Raises:
        Problem: 422 that names every wrong parameter.
    """
    pieces, unknown = split(request.rel_url.raw_query_string, route.query.load_fields)
    parameters, errors = load(route.query, pieces)
    errors += find_errors(parameters)
    if errors:
        raise problems.invalid(errors)
    return parameters, name_ignored(unknown)


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
