"""The authorization layer: which repositories a principal sees, and what it may do there.

It checks, in this order: path, repository, scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.web import StreamResponse

from indexing.models.keys import Scope
from indexing.names import RepositoryName
from service.auth.principal import Principal
from service.context import PRINCIPAL, READER, REPOSITORY, REQUESTED, Requested
from service.http import problems
from service.http.operations import Operation
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.layer import RouteHandler, RouteLayer
from service.routes import Route

_INGESTS: Final = frozenset({Operation.SEND_EVENTS, Operation.SEND_TRACES})
_QUARANTINES: Final = frozenset({Operation.ADD_QUARANTINE, Operation.REMOVE_QUARANTINE})
_READS: Final = frozenset(Operation) - _INGESTS - _QUARANTINES

# A CI plugin uses one key to send results and to read quarantines.
OPERATIONS: Final[Mapping[Scope, frozenset[Operation]]] = {
    Scope.READ: _READS,
    Scope.INGEST: frozenset({Operation.QUARANTINES, Operation.QUARANTINE}) | _INGESTS,
    # A client that quarantines tests has to find them first.
    Scope.QUARANTINE: _READS | _QUARANTINES,
    Scope.ADMIN: frozenset(Operation),
}


def authorize(route: Route) -> RouteLayer:
    """Return a layer that refuses a request to that route unless the principal may make it.

    It raises a `Problem`: 422 for the path, 404 for the repository or owner, 403 for the scope.
    """
    return _authorize_for_owner(route) if route.is_of_owner else _authorize_for_one(route)


def _authorize_for_one(route: Route) -> RouteLayer:
    """Return the layer for an operation on one repository."""
    creates = route.operation in _INGESTS
    takes_body = bool(route.media_types)

    def around(handler: RouteHandler) -> RouteHandler:
        async def answer(request: web.Request) -> StreamResponse:
            requested, principal = request[REQUESTED], request.get(PRINCIPAL)
            repository = _require_repository(requested)
            covered = principal is not None and covers(principal, repository)
            if covered:
                request.app[ADMISSION_CONTROL].add_verified(request)
            if requested.errors or principal is None:
                raise problems.invalid(requested.errors)
            allowed = route.operation in OPERATIONS[principal.scope]
            # The store is never asked for a repository of somebody else, so that not even the
            # response time reveals whether it exists.
            found = None
            if covered:
                found = await request[READER].find_repository(repository)
            if found is None and covered and allowed and creates:
                # It is about to be created.
                found = repository
            if found is None:
                raise problems.not_found("repository")
            if not allowed:
                raise problems.missing_scope()
            if takes_body:
                request.app[ADMISSION_CONTROL].release_slot(request)
            request[REPOSITORY] = found
            return await handler(request)

        return answer

    return around


def _authorize_for_owner(route: Route) -> RouteLayer:
    """Return the layer for an operation on an owner; nothing reveals whether others exist."""

    def around(handler: RouteHandler) -> RouteHandler:
        async def answer(request: web.Request) -> StreamResponse:
            requested, principal = request[REQUESTED], request.get(PRINCIPAL)
            covered = principal is not None and principal.owner.lower() == requested.owner.lower()
            if covered:
                request.app[ADMISSION_CONTROL].add_verified(request)
            if requested.errors or principal is None:
                raise problems.invalid(requested.errors)
            if not covered:
                raise problems.not_found("owner")
            if route.operation not in OPERATIONS[principal.scope]:
                raise problems.missing_scope()
            return await handler(request)

        return answer

    return around


def _require_repository(requested: Requested) -> RepositoryName:
    """Return the repository of a path that names one."""
    if requested.repository is None:
        raise LookupError("the path of this operation names no repository")
    return requested.repository


def covers(principal: Principal, name: RepositoryName) -> bool:
    """Whether the principal has access to that repository, if it exists."""
    if principal.repository is None:
        return principal.owner.lower() == name.owner.lower()
    return RepositoryName(principal.owner, principal.repository).key == name.key
