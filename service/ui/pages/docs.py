"""The API reference, made from the OpenAPI document; users can try reads with their own key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from aiohttp import web

from service.auth.principal import Principal
from service.context import CONTEXT
from service.http import problems
from service.http.path_params import REPOSITORY
from service.http.problems import Problem
from service.http.raw_response import body_of
from service.http.route import Route
from service.http.targets import UI_PREFIX
from service.routes import READ_ROUTES
from service.ui.api import fields_of
from service.ui.formats import indent_json, show_text
from service.ui.page_context import PageContext
from service.ui.principals import read_repository
from service.ui.queries import first_of, read_short, values_of, write_pairs
from service.ui.reference import ApiOperation, make_curl, make_url, read_document

_OPERATION: Final = "operation"
_TRY: Final = "try"
# The operations that can be tried. Streams cannot: they do not end, so the page would not either.
_TRIED: Final[Mapping[str, Route]] = {
    route.operation_id: route for route in READ_ROUTES if route.stream_type is None
}
_MAX_SHOWN: Final = 64 * 1024
# Of a character in UTF-8.
_MOST_BYTES: Final = 4
_MAX_HEADER: Final = 2_000


@dataclass(frozen=True, slots=True)
class Tried:
    """The response to a call, as printable text; `size` is the size of its body in bytes."""

    status: int
    fields: Sequence[tuple[str, str]]
    body: str
    size: int
    is_cut: bool


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/docs: all operations, or one; `try` calls it with the values of the form."""
    pairs = read_short(page.request.rel_url.raw_query_string)
    document = await page.request.app[CONTEXT].openapi.get()
    operations = await asyncio.to_thread(read_document, document)
    chosen_id = first_of(pairs, _OPERATION)
    chosen = operations.get(chosen_id)
    if chosen is None and chosen_id:
        raise problems.not_found("operation")
    common: dict[str, Any] = {
        "groups": [
            (group, list(found))
            for group, found in groupby(operations.values(), lambda each: each.group)
        ],
        "chosen": chosen,
        "base_url": _base_url(page),
        "document": page.dashboard.base.removesuffix(UI_PREFIX) + "/openapi.json",
    }
    if chosen is None:
        return await page.show("docs.html", **common)
    # Each line of a form field is one value of the parameter; an empty one is none.
    values = {
        each.field: [
            line.strip()
            for text in values_of(pairs, each.field)
            for line in text.splitlines()
            if line.strip()
        ]
        for each in chosen.parameters
    }
    route = _TRIED.get(chosen.id)
    tried = None
    if route is not None and first_of(pairs, _TRY):
        tried = await _call(page, principal, route, chosen, values)
    elif not any(values.values()) and principal.repository:
        values = {**values, **_own_repository(principal)}
    return await page.show(
        "docs.html",
        **common,
        can_try=route is not None,
        tried=tried,
        values=values,
        target=make_url(chosen, values, {}),
        curl=make_curl(chosen, _base_url(page), values),
    )


async def _call(
    page: PageContext,
    principal: Principal,
    route: Route,
    operation: ApiOperation,
    values: Mapping[str, Sequence[str]],
) -> Tried:
    path = {each.name: next(iter(values.get(each.name, ())), "") for each in route.path}
    query = write_pairs(
        (each.name, value)
        for each in operation.parameters
        if each.place == "query"
        for value in values[each.field]
    )
    try:
        api = page.open_api(await _find_principal(page, principal, route, path, values))
        response: web.StreamResponse = await api.open(route, path, query, "application/json")
    except Problem as problem:
        response = problems.response(problem)
    return await asyncio.to_thread(_show_answer, response)


async def _find_principal(
    page: PageContext,
    principal: Principal,
    route: Route,
    path: Mapping[str, str],
    values: Mapping[str, Sequence[str]],
) -> Principal:
    """Return the principal of the call: a token is verified for each repository by itself.

    Raises:
        Problem: the code host rejects the token or is unavailable, or no repository is named.
    """
    if principal.key is not None:
        return principal
    owner, *names = [path[each.name] for each in route.path]
    if not names:
        names = [*values.get(REPOSITORY.name, ())]
        if len(names) != 1 or read_repository(owner, names[0]) is None:
            raise problems.missing_repository()
    wanted = read_repository(owner, names[0])
    # The API reports what is wrong with a malformed name.
    found = principal if wanted is None else await page.find_principal(wanted)
    if found is None:
        raise problems.forbidden()
    return found


def _show_answer(response: web.StreamResponse) -> Tried:
    body = body_of(response)
    # Only what is shown: to decode megabytes would block all other requests, in a thread too.
    text = body[: _MAX_SHOWN * _MOST_BYTES].decode(errors="ignore")
    text = indent_json(text, _MAX_SHOWN)
    fields = [(name, show_text(value[:_MAX_HEADER])) for name, value in fields_of(response).items()]
    shown = show_text(text[:_MAX_SHOWN], lines=True)
    return Tried(response.status, fields, shown, len(body), len(text) > _MAX_SHOWN)


def _own_repository(principal: Principal) -> Mapping[str, list[str]]:
    name = principal.repository or ""
    return {"owner": [principal.owner], "repository": [name], "repository_name": [name]}


def _base_url(page: PageContext) -> str:
    public_url = page.dashboard.public_url
    return public_url or f"{page.request.scheme}://{page.request.host}"
