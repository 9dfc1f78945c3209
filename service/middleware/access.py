"""Two layers: who sends a request, and which repositories and operations that principal may use.

Authentication identifies the sender by an application key or a code host's token. It looks up in
one call of the cache all that the request is going to read. Authorization checks, in this order:
path, repository, scope. No credential is kept, logged or put into an error.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.web import StreamResponse
from multidict import CIMultiDictProxy

from indexing.errors import InvalidValueError
from indexing.models.keys import ApplicationKey, Scope
from indexing.names import RepositoryName, check_repository
from service.auth.api_keys import KEY_PREFIX, digest_key, is_key
from service.auth.code_host.decisions import Finding, HostUnavailable
from service.auth.code_host.tokens import is_token
from service.auth.principal import KeyName, Principal
from service.context import (
    CONTEXT,
    PRINCIPAL,
    READER,
    REPOSITORY,
    REQUESTED,
    AccessCheck,
    Requested,
)
from service.http import problems
from service.http.field_errors import FieldError
from service.http.operations import Operation
from service.http.path_params import REPOSITORY as REPOSITORY_PARAMETER
from service.http.path_params import PathParameter
from service.http.route import Route
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.layer import RouteHandler, RouteLayer
from service.middleware.rate_limit import RATE_LIMIT, RateLimit

if TYPE_CHECKING:
    from service.auth.code_host.access import CodeHost

# RFC 9110, section 11.4: the scheme's case does not matter, one or more spaces follow it.
_BEARER: Final = re.compile(r"bearer +([^ ]+) *", re.IGNORECASE)

# In a path, an item of a repository follows owner and repository.
_ITEM: Final = 2

# How many checked paths are cached, and the length of the longest values of one.
_CHECKED_PATHS: Final = 2_048
_SHORT_PATH: Final = 200

# No owner has an empty name, so a principal of this owner sees nothing.
_NO_OWNER: Final = ""

_INGESTS: Final = frozenset({Operation.SEND_EVENTS, Operation.SEND_TRACES})
_QUARANTINES: Final = frozenset({Operation.ADD_QUARANTINE, Operation.REMOVE_QUARANTINE})
_READS: Final = frozenset(Operation) - _INGESTS - _QUARANTINES

# A CI plugin uses one key to send results and to read quarantines.
OPERATIONS: Final[Mapping[Scope, frozenset[Operation]]] = {
    Scope.READ: _READS,
    Scope.INGEST: _INGESTS
    | frozenset({Operation.QUARANTINES, Operation.QUARANTINE, Operation.TEST_STATES}),
    # A client that quarantines tests has to find them first.
    Scope.QUARANTINE: _READS | _QUARANTINES,
    Scope.ADMIN: frozenset(Operation),
}


def authenticate(route: Route, *, counted: bool = True) -> RouteLayer:
    """Return a layer that refuses a request to that route unless its credential is valid.

    Errors of the path are reported by `authorize`. For a path with errors, no token is verified and
    no repository is looked up. Only `counted` requests count against the rate limit.
    """

    def around(handler: RouteHandler) -> RouteHandler:
        async def answer(request: web.Request) -> StreamResponse:
            context = request.app[CONTEXT]
            rate_limit = request.app.get(RATE_LIMIT) if counted else None
            bearer = _read_bearer(request.headers)
            requested, item = _read_path(request, route)
            repository, errors = requested.repository, requested.errors
            digest = digest_key(bearer) if bearer.startswith(KEY_PREFIX) else None
            if digest is None:
                code_host = _require_code_host(context.code_host, bearer)
                if not errors:
                    request[PRINCIPAL] = await verify_token(
                        request,
                        rate_limit,
                        code_host,
                        bearer,
                        repository or _read_query(request, requested.owner),
                    )
            reader = await context.readers.open(
                route.operation, digest, None if errors else repository, item
            )
            request[READER] = reader
            if digest is not None:
                principal = identify(await reader.find_key(digest), digest, context.clock())
                request[PRINCIPAL] = principal
                if rate_limit is not None:
                    await rate_limit.spend(request, principal.name)
            return await handler(request)

        return answer

    return around


async def admit(request: web.Request, route: Route, principal: Principal) -> None:
    """Set on a request what `authenticate` sets, for a principal that is already verified."""
    requested, item = _read_path(request, route)
    request[PRINCIPAL] = principal
    request[READER] = await request.app[CONTEXT].readers.open(
        route.operation, None, None if requested.errors else requested.repository, item
    )


def _read_path(request: web.Request, route: Route) -> tuple[Requested, str | None]:
    """Set the path's owner and repository on the request; return them, and the path's item."""
    values = [request.match_info[parameter.name] for parameter in route.path]
    check = _check_again if sum(map(len, values[:_ITEM])) <= _SHORT_PATH else _check
    requested = check(route.path[:_ITEM], *values[:_ITEM])
    errors = _find_errors(route.path[_ITEM:], values[_ITEM:])
    if errors:
        requested = replace(requested, errors=(*requested.errors, *errors))
    request[REQUESTED] = requested
    return requested, values[_ITEM] if len(values) > _ITEM else None


def _check(
    parameters: tuple[PathParameter, ...], owner: str, repository: str | None = None
) -> Requested:
    """Return what the beginning of a path names, with the errors of its values."""
    if repository is None:
        return Requested(owner, None, _find_errors(parameters, (owner,)))
    errors = _find_errors(parameters, (owner, repository))
    return Requested(owner, RepositoryName(owner, repository), errors)


# Clients ask about the same few repositories again and again.
_check_again: Final = lru_cache(_CHECKED_PATHS)(_check)


def _find_errors(
    parameters: Sequence[PathParameter], values: Sequence[str]
) -> tuple[FieldError, ...]:
    errors = []
    for parameter, value in zip(parameters, values, strict=True):
        try:
            parameter.check(value)
        except InvalidValueError as error:
            errors.append(FieldError("path", parameter.name, str(error)))
    return tuple(errors)


def _read_query(request: web.Request, owner: str) -> RepositoryName:
    """Return the repository that the query string of an operation on an owner names.

    Raises:
        Problem: 403 unless it names exactly one: the code host confirms the access of a token only
            to one repository at a time.
    """
    names = request.query.getall(REPOSITORY_PARAMETER.name, ())
    if len(names) == 1:
        with suppress(InvalidValueError):
            return RepositoryName(owner, check_repository(names[0]))
    raise problems.missing_repository()


def _read_bearer(headers: CIMultiDictProxy[str]) -> str:
    """Return the one credential of a request.

    Raises:
        Problem: 403 if it has none, or more than one, or a mistyped application key.
    """
    values = headers.getall("Authorization", ())
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    # A mistyped key has a wrong checksum. It is neither looked up in the store nor sent to the code
    # host, which must not see what is almost a key.
    if match is None or (match[1].startswith(KEY_PREFIX) and not is_key(match[1])):
        raise problems.forbidden()
    return match[1]


def identify(key: ApplicationKey | None, digest: bytes, now: datetime) -> Principal:
    """Return the principal of the key that was found by that digest.

    Raises:
        Problem: 403 if the key is not valid, the same for every reason.
    """
    if key is None or not hmac.compare_digest(key.digest, digest):
        raise problems.forbidden()
    return make_principal(key, now)


def make_principal(key: ApplicationKey, now: datetime) -> Principal:
    """Return the principal of a key.

    Raises:
        Problem: 403 if it was revoked or has expired.
    """
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        raise problems.forbidden()
    return Principal(
        f"key {key.id}",
        key.scope,
        key.owner,
        key.repository,
        key.expires_at,
        KeyName(key.id, key.name),
    )


def _require_code_host(code_host: CodeHost | None, token: str) -> CodeHost:
    """Return the code host that may have issued the token.

    Raises:
        Problem: 403 if none is configured, or its tokens look different.
    """
    if code_host is None or not is_token(token):
        raise problems.forbidden()
    return code_host


async def verify_token(
    request: web.Request,
    rate_limit: RateLimit | None,
    code_host: CodeHost,
    token: str,
    repository: RepositoryName,
) -> Principal:
    """Return the principal of the token, with access to that repository at most.

    A request counts against a rate limit unless the code host rejects the token.

    Raises:
        Problem: 403 if the code host rejects the token, 429 if the rate limit is exceeded, 503 if
            the code host is unavailable.
    """
    name = f"token {code_host.identify(token)}"
    if rate_limit is None:
        return await _check_access(code_host, token, repository, name)
    # Before the code host is called: a call costs more than a response.
    await rate_limit.require_some(request, name)
    principal = await _check_access(code_host, token, repository, name)
    await rate_limit.spend(request, principal.name)
    return principal


async def _check_access(
    code_host: CodeHost, token: str, repository: RepositoryName, name: str
) -> Principal:
    """Return the principal of that name, with access to that repository at most.

    Raises:
        Problem: 403 if the code host rejects the token, 503 if it is unavailable.
    """
    decision = await code_host.check(token, repository)
    if isinstance(decision, HostUnavailable):
        detail = "the code host is unavailable, so access cannot be checked; retry later"
        raise problems.unavailable(detail, decision.seconds)
    if decision.finding is Finding.BAD_CREDENTIAL:
        raise problems.forbidden()
    if decision.finding is Finding.HIDDEN:
        return Principal(name, Scope.READ, _NO_OWNER)
    return Principal(name, Scope.READ, repository.owner, repository.name, decision.until)


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
                raise _missing_scope(principal, route)
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
                raise _missing_scope(principal, route)
            return await handler(request)

        return answer

    return around


def _missing_scope(principal: Principal, route: Route) -> problems.Problem:
    needed = [scope for scope, covered in OPERATIONS.items() if route.operation in covered]
    return problems.missing_scope(principal.scope, *needed)


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


async def allow(_request: web.Request) -> StreamResponse:
    """Answer a request that is only checked by the layers around this."""
    return web.Response()


def check_credential(route: Route) -> AccessCheck:
    """Return what checks the credential of a request again, without counting it."""
    return AccessCheck(authenticate(route, counted=False)(authorize(route)(allow)))
