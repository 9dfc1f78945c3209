"""Calls the API within the process, as the signed-in user.

A page gets the same responses, problems and page links as an API client with the same key, because
the same handlers answer.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson
from aiohttp import web
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from indexing.events.json_text import decode_stored
from indexing.fairness import FairSemaphore, current_tenant
from service.auth.principal import Principal
from service.context import ACCESS_CHECK, REPOSITORY, AccessCheck
from service.http import problems
from service.http.operations import Operation
from service.http.raw_response import RawResponse, body_of
from service.http.route import Route
from service.middleware.access import admit, allow, authorize
from service.middleware.layer import RouteHandler
from service.routes import LAST_EVENT_ID
from service.ui.row_decoding import decode_rows

# The handler of a change; its second argument is the request body, made from a form.
Change = Callable[[web.Request, Any], Awaitable[web.StreamResponse]]

_LINK: Final = re.compile(r'<([^<>]*)>; rel="([a-z]+)"')


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers of the operations, without authentication and authorization.

    `row_slots` are for the lists that are being decoded: one at a time. Each may run for a moment
    in every iteration of the event loop, so many together would block all other requests.
    """

    reads: Mapping[Operation, RouteHandler]
    changes: Mapping[Operation, Change]
    row_slots: FairSemaphore = field(default_factory=lambda: FairSemaphore(1))


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """A decoded response; `links` maps link relations to the query strings of other pages."""

    value: Any
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApiRows:
    """The rows of a list, decoded as they are read; `links` are those of `ApiAnswer`."""

    rows: AsyncIterator[Any]
    links: Mapping[str, str]


class Api:
    """Calls the API on behalf of one request of a signed-in user."""

    def __init__(
        self,
        request: web.Request,
        principal: Principal,
        find_principal: Callable[[], Awaitable[Principal | None]],
        handlers: Handlers,
    ) -> None:
        """Call it as `principal`.

        Each call leaves the stored spelling of its repository on the request. A response that takes
        long ends soon after `find_principal` returns None or a principal without access.
        """
        self._page = request
        # Cloned now, because aiohttp cannot clone a request after its body was read.
        self._request = request.clone()
        self._principal = principal
        self._find_principal = find_principal
        self._handlers = handlers

    async def get(self, route: Route, path: Mapping[str, str], query: str = "") -> ApiAnswer:
        """Read a resource with a raw query string.

        Raises:
            Problem: the operation refuses the request.
        """
        response = await self.open(route, path, query)
        return ApiAnswer(decode_stored(body_of(response)), _links_of(response))

    @asynccontextmanager
    async def get_rows(
        self, route: Route, path: Mapping[str, str], query: str, name: str
    ) -> AsyncIterator[ApiRows]:
        """Read a list that may be long: its rows are the member `name` of the response.

        No other list is decoded until the context exits.

        Raises:
            Problem: the operation refuses the request.
        """
        response = await self.open(route, path, query)
        async with self._handlers.row_slots.slot(current_tenant.get()):
            yield ApiRows(decode_rows(body_of(response), name), _links_of(response))

    async def open(
        self, route: Route, path: Mapping[str, str], query: str = "", accept: str = "*/*"
    ) -> web.StreamResponse:
        """Return the response of a read; if it is a stream, it may have been sent already."""
        return await self._call(route, path, query, accept, self._handlers.reads[route.operation])

    async def export(
        self, route: Route, path: Mapping[str, str], query: str, accept: str, name: str
    ) -> web.StreamResponse:
        """Return all rows of a list as a file to download, which no cache keeps."""
        response = await self.open(route, path, query, accept)
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        response.headers["Cache-Control"] = "no-store"
        return response

    async def follow(self, route: Route, path: Mapping[str, str]) -> web.StreamResponse:
        """Answer with an endless stream, which resumes after the last event that was received."""
        handler = self._handlers.reads[route.operation]
        return await self._call(route, path, "", "*/*", handler, (LAST_EVENT_ID,))

    async def change(self, route: Route, path: Mapping[str, str], value: Any = None) -> Any:
        """Make a change; return the decoded response, or None if it has no body.

        Raises:
            Problem: the operation refuses the request.
        """
        handler = self._handlers.changes[route.operation]

        async def run(request: web.Request) -> web.StreamResponse:
            return await handler(request, value)

        response = await self._call(route, path, "", "*/*", run)
        body = body_of(response)
        return orjson.loads(body) if body else None

    async def _call(
        self,
        route: Route,
        path: Mapping[str, str],
        query: str,
        accept: str,
        handler: RouteHandler,
        passed: Sequence[str] = (),
    ) -> web.StreamResponse:
        target = route.url.format(**{name: quote(text, safe="") for name, text in path.items()})
        sent = self._request.headers
        headers = CIMultiDict({"Host": sent.get("Host", ""), "Accept": accept})
        for name in passed:
            headers.extend((name, value) for value in sent.getall(name, ()))
        request = self._request.clone(
            method=route.method.upper(),
            rel_url=URL(f"{target}?{query}" if query else target, encoded=True),
            headers=headers,
        )
        found = web.UrlMappingMatchInfo(dict(path), self._request.match_info.route)
        found.add_app(self._request.app)
        # aiohttp has no public way to set this; its router sets the same attribute.
        request._match_info = found  # noqa: SLF001
        await admit(request, route, self._principal)
        admitted = authorize(route)(allow)

        async def check(request: web.Request) -> None:
            principal = await self._find_principal()
            if principal is None:
                raise problems.forbidden()
            await admit(request, route, principal)
            await admitted(request)

        request[ACCESS_CHECK] = AccessCheck(check)
        response = await authorize(route)(handler)(request)
        if REPOSITORY in request:
            self._page[REPOSITORY] = request[REPOSITORY]
        return response


def _links_of(response: web.StreamResponse) -> Mapping[str, str]:
    return {
        relation: urlsplit(url).query
        for text in fields_of(response).getall("Link", ())
        for url, relation in _LINK.findall(text)
    }


def fields_of(response: web.StreamResponse) -> MultiMapping[str]:
    """Return the header fields of a response."""
    return response.fields if isinstance(response, RawResponse) else response.headers
