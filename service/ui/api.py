"""Asks the API within the process, as the person who is signed in.

A page gets the same answer, the same problems and the same links between pages as a client of the
API with the same key would, because the same handlers answer it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson
from aiohttp import web
from multidict import CIMultiDict, MultiMapping
from yarl import URL

from service.auth.principal import Principal
from service.context import ACCESS_CHECK, AccessCheck
from service.http import problems
from service.http.operations import Operation
from service.http.problems import Problem
from service.http.raw_response import RawResponse
from service.middleware.authentication import admit
from service.middleware.authorization import authorize
from service.middleware.layer import RouteHandler
from service.routes import LAST_EVENT_ID, Route

# A change with its body, which comes of a form.
Change = Callable[[web.Request, Any], Awaitable[web.StreamResponse]]

_LINK: Final = re.compile(r'<([^<>]*)>; rel="([a-z]+)"')


@dataclass(frozen=True, slots=True)
class Handlers:
    """What answers the operations, without authentication and authorization."""

    reads: Mapping[Operation, RouteHandler]
    changes: Mapping[Operation, Change]


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """A decoded answer; `links` are the query strings of other pages, by relation."""

    value: Any
    links: Mapping[str, str] = field(default_factory=dict)


class Api:
    """The API for one request of a signed-in person."""

    def __init__(self, request: web.Request, principal: Principal, handlers: Handlers) -> None:
        # Taken before the body is read: after that nothing can be derived from a request.
        self._request = request.clone()
        self._principal = principal
        self._handlers = handlers

    async def get(
        self, route: Route, path: Mapping[str, str], query: str = "", *, missing_ok: bool = False
    ) -> ApiAnswer:
        """The answer of a read to a raw query string; of null if it is not there and may be so.

        Raises:
            Problem: what the operation answers instead.
        """
        try:
            response = await self.open(route, path, query)
        except Problem as problem:
            if missing_ok and problem.status == 404:
                return ApiAnswer(None)
            raise
        links = {
            relation: urlsplit(url).query
            for text in fields_of(response).getall("Link", ())
            for url, relation in _LINK.findall(text)
        }
        return ApiAnswer(orjson.loads(body_of(response)), links)

    async def open(
        self, route: Route, path: Mapping[str, str], query: str = "", accept: str = "*/*"
    ) -> web.StreamResponse:
        """The response of a read, which may have been sent already if it is a stream."""
        return await self._call(route, path, query, accept, self._handlers.reads[route.operation])

    async def follow(
        self,
        route: Route,
        path: Mapping[str, str],
        find_principal: Callable[[], Awaitable[Principal | None]],
    ) -> web.StreamResponse:
        """The response of a stream without an end, which goes on after the last event received.

        It ends soon after `find_principal` gives nobody, or somebody who may not follow it.
        """
        handler, admitted = self._handlers.reads[route.operation], authorize(route)(_allow)

        async def check(request: web.Request) -> None:
            principal = await find_principal()
            if principal is None:
                raise problems.forbidden()
            await admit(request, route, principal)
            await admitted(request)

        async def run(request: web.Request) -> web.StreamResponse:
            request[ACCESS_CHECK] = AccessCheck(check)
            return await handler(request)

        return await self._call(route, path, "", "*/*", run, (LAST_EVENT_ID,))

    async def change(self, route: Route, path: Mapping[str, str], value: Any = None) -> Any:
        """Change something; gives the decoded answer, or None where there is none.

        Raises:
            Problem: what the operation answers instead.
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
        asked = self._request.clone(
            method=route.method.upper(),
            rel_url=URL(f"{target}?{query}" if query else target, encoded=True),
            headers=headers,
        )
        found = web.UrlMappingMatchInfo(dict(path), self._request.match_info.route)
        found.add_app(self._request.app)
        # The router sets this too, and there is no other way.
        asked._match_info = found  # noqa: SLF001
        await admit(asked, route, self._principal)
        return await authorize(route)(handler)(asked)


async def _allow(_request: web.Request) -> web.StreamResponse:
    return web.Response()


def fields_of(response: web.StreamResponse) -> MultiMapping[str]:
    """The header fields of an answer."""
    return response.fields if isinstance(response, RawResponse) else response.headers


def body_of(response: web.StreamResponse) -> bytes:
    """The body of an answer, empty where it is a stream."""
    if isinstance(response, RawResponse):
        return response.content
    if isinstance(response, web.Response) and isinstance(response.body, bytes):
        return response.body
    return b""
