"""Reads the query parameters of an operation that has no pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from service.http import problems
from service.http.query_string import FindErrors, find_none, load, name_ignored, split
from service.http.route import QueryRoute


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
