"""Remembered access: a read skips the router and the layers of access that it would pass again.

A client reads the same few paths with the same credential again and again; only the query string
or an id in the path differs. Once such a request has passed the router, authentication and
authorization, what they found is remembered for a few seconds. It is used only while nothing that
it depends on has changed: the key, the repository, and the time where that matters.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse

from indexing.clocks import Clock
from indexing.errors import InvalidValueError
from indexing.identifiers import UUID_PATTERN
from indexing.lru import Lru
from indexing.names import RepositoryName
from service.auth.principal import Principal
from service.cache.backend import CacheBackend, Versions
from service.cache.keys import ACCESS_LIFETIME
from service.context import CONTEXT, PRINCIPAL, READER, REPOSITORY, REQUESTED, Requested
from service.http.path_params import PathParameter
from service.http.route import Route
from service.middleware.layer import Handler, RouteHandler, RouteLayer
from service.middleware.rate_limit import RateLimit

# Some two thousand paths.
_MAX_BYTES: Final = 4 * 1024 * 1024
_SECRET_SIZE: Final = 16
_DIGEST_SIZE: Final = 16

# A path that can be written in one way only, and an id as a whole segment of it.
_PLAIN: Final = re.compile(r"/[A-Za-z0-9._~/\-]{1,400}")
_ID: Final = re.compile(rf"(?<=/){UUID_PATTERN}(?=/|$)")
# No plain path contains it.
_PLACEHOLDER: Final = "*"


class SplitPath(NamedTuple):
    """A path with placeholders for its ids, and these ids."""

    pattern: str
    ids: tuple[str, ...]


def split_path(path: str) -> SplitPath | None:
    """Split a raw path; `None` if nothing is remembered for such a path."""
    if not _PLAIN.fullmatch(path):
        return None
    ids = tuple(_ID.findall(path))
    return SplitPath(_ID.sub(_PLACEHOLDER, path) if ids else path, ids)


@dataclass(frozen=True, slots=True)
class Access:
    """What the router and the layers of access found, and the handler within these layers."""

    name: bytes
    handler: RouteHandler
    route: web.AbstractRoute
    # The parameters of the path but for its ids, and the parameters that are ids, in their order.
    values: dict[str, str]
    ids: tuple[PathParameter, ...]
    requested: Requested
    principal: Principal
    repository: RepositoryName
    namespaces: tuple[str, ...]
    versions: Versions

    def find_values(self, ids: tuple[str, ...]) -> dict[str, str] | None:
        """Return the parameters of a path with these ids; `None` if one is not valid."""
        if not ids:
            return self.values
        values = {**self.values}
        for parameter, text in zip(self.ids, ids, strict=True):
            try:
                parameter.check(text)
            except InvalidValueError:
                return None
            values[parameter.name] = text
        return values


class Admitted(NamedTuple):
    """The access of a request, and all parameters of its path."""

    access: Access
    values: dict[str, str]


# Set on a request that has passed these layers, now or earlier.
ADMITTED: Final = web.RequestKey("admitted", Admitted)


class _Place(NamedTuple):
    """What access is remembered for: a digest of credential and path, but for the path's ids."""

    name: bytes
    ids: tuple[str, ...]


_PLACE: Final = web.RequestKey("place", _Place)


class RememberedAccess:
    """The remembered access of one process."""

    def __init__(
        self,
        backend: CacheBackend,
        clock: Clock,
        rate_limit: RateLimit | None,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._rate_limit = rate_limit
        self._known: Lru[Access] = Lru(_MAX_BYTES)
        # With a secret in the names, a guessed credential cannot be checked against them.
        self._secret = secrets.token_bytes(_SECRET_SIZE)

    def wrap(self, app: web.Application, router: Handler) -> Handler:
        """Wrap the router of the application, so that it is called only for other requests."""
        if self._backend.is_shared:
            # The versions are on a server. The router looks them up together with the answer.
            return router

        async def answer(request: BaseRequest) -> StreamResponse:
            admitted = request.get(ADMITTED) or self._find_for(request)
            if admitted is None or not isinstance(request, web.Request):
                return await router(request)
            request[ADMITTED] = admitted
            access, values = admitted
            if self._rate_limit is not None:
                await self._rate_limit.spend(request, access.principal.name)
            found = web.UrlMappingMatchInfo(values, access.route)
            found.add_app(app)
            # aiohttp has no public way to set this; its router sets the same attribute.
            request._match_info = found  # noqa: SLF001
            request[REQUESTED] = access.requested
            request[PRINCIPAL] = access.principal
            request[REPOSITORY] = access.repository
            request[READER] = app[CONTEXT].readers.reopen(access.namespaces, access.versions)
            return await access.handler(request)

        return answer

    def find(
        self, name: bytes, ids: tuple[str, ...], *, on_arrival: bool = False
    ) -> Admitted | None:
        """Return the access of that name for these ids, if it is still valid.

        `on_arrival`: while a request is received, and not in a callback of the event loop.
        """
        access = self._known.find(name)
        if access is None:
            return None
        find = self._backend.find_versions if on_arrival else self._backend.known_versions
        until = access.principal.until
        if find(access.namespaces) != access.versions or (
            until is not None and self._clock() >= until
        ):
            return None
        values = access.find_values(ids)
        return None if values is None else Admitted(access, values)

    def _find_for(self, request: BaseRequest) -> Admitted | None:
        place = self._place_of(request)
        if place is None:
            return None
        request[_PLACE] = place
        return self.find(*place)

    def learn(
        self, request: web.Request, handler: RouteHandler, parameters: tuple[PathParameter, ...]
    ) -> None:
        """Remember the access of a request that has it; `parameters` are the ids in its path."""
        place, repository = request.get(_PLACE), request.get(REPOSITORY)
        if place is None or repository is None:
            # Nothing is remembered for such a request.
            return
        dependencies = request[READER].find_dependencies()
        values = dict(request.match_info)
        ids = tuple([values.pop(parameter.name) for parameter in parameters])
        # Something else in a path may look like an id.
        if dependencies is None or place.ids != ids:
            return
        access = Access(
            place.name,
            handler,
            request.match_info.route,
            values,
            parameters,
            request[REQUESTED],
            request[PRINCIPAL],
            repository,
            *dependencies,
        )
        request[ADMITTED] = Admitted(access, dict(request.match_info))
        size = 2 * sum(map(len, values.values()))
        self._known.keep(place.name, access, size, time.monotonic() + ACCESS_LIFETIME)

    def _place_of(self, request: BaseRequest) -> _Place | None:
        """Return what access is remembered for; `None` if nothing is for such a request."""
        headers = request.headers
        credentials = headers.getall("Authorization", ())
        if request.method != "GET" or len(credentials) != 1 or "Expect" in headers:
            return None
        split = split_path(request.raw_path.partition("?")[0])
        if split is None:
            return None
        # None of these can contain a line break.
        text = f"{split.pattern}\n{credentials[0]}".encode("utf-8", "surrogateescape")
        name = hashlib.blake2b(text, key=self._secret, digest_size=_DIGEST_SIZE).digest()
        return _Place(name, split.ids)


REMEMBERED_ACCESS: Final = web.AppKey("remembered_access", RememberedAccess)


def remember_access(route: Route) -> RouteLayer:
    """Return the layer inside of those of access, which remembers what they found."""
    ids = tuple([each for each in route.path if each.schema.get("format") == "uuid"])

    def around(handler: RouteHandler) -> RouteHandler:
        async def answer(request: web.Request) -> StreamResponse:
            request.app[REMEMBERED_ACCESS].learn(request, handler, ids)
            return await handler(request)

        return answer

    return around
