"""The checks before every handler, in their order: credential, path, repository, scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from indexing.models.keys import ApplicationKey
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.auth.api_keys import digest_key, is_key
from service.auth.authentication import (
    authenticate,
    authenticate_token,
    name_token_holder,
    read_bearer,
    require_code_host,
)
from service.auth.authorization import find_visible, find_writable, require_scope
from service.auth.principal import Principal
from service.cache import reader as cached_reader
from service.cache.keys import (
    CREDENTIALS,
    EVERYTHING,
    CacheKey,
    key_of_credential,
    key_of_repository,
    repository_namespace,
)
from service.cache.session import CacheSession
from service.context import CONTEXT, Context
from service.http import problems
from service.http.path_params import PathParameter, find_path_errors
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.rate_limit import RATE_LIMIT
from service.routes import Route

if TYPE_CHECKING:
    from service.auth.code_host.access import CodeHost


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may be answered: for which repository, to whom, by which cache session."""

    context: Context
    repository: RepositoryName
    principal: Principal
    session: CacheSession


@dataclass(frozen=True, slots=True)
class _Directory:
    """Keys and repositories as one request sees them: through the cache."""

    session: CacheSession
    reader: Reader

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        return await cached_reader.find_key(self.session, self.reader, digest)

    async def find_repository(self, name: RepositoryName) -> RepositoryName | None:
        return await cached_reader.find_repository(self.session, self.reader, name)


async def admit(
    request: web.Request,
    route: Route,
    expect: Callable[[RepositoryName], CacheKey] | None = None,
) -> Admission:
    """Admit a request to read the repository in its path, which is its first two parameters.

    `expect` gives the cache key of the answer, where the path alone determines it: the cache is
    then asked once for everything.

    Raises:
        Problem: 403 for the credential, then 422 for the path's form, then 404 for the
            repository, then 403 for the scope.
    """
    principal, name, directory = await _identify(request, route.path, expect)
    found = await find_visible(principal, name, directory)
    require_scope(principal, route.operation)
    return Admission(request.app[CONTEXT], found, principal, directory.session)


async def admit_to_write(request: web.Request, route: Route) -> RepositoryName:
    """Admit a request to write to the repository in its path, which may be a new one.

    Raises:
        Problem: in the order of `admit`.
    """
    principal, name, directory = await _identify(request, route.path)
    found = await find_writable(principal, name, route.operation, directory)
    request.app[ADMISSION_CONTROL].release_slot(request)
    return found


async def _identify(
    request: web.Request,
    path: tuple[PathParameter, ...],
    expect: Callable[[RepositoryName], CacheKey] | None = None,
) -> tuple[Principal, RepositoryName, _Directory]:
    """The principal, and the repository in the path."""
    context = request.app[CONTEXT]
    bearer = read_bearer(request.headers)
    values = request.match_info
    errors = find_path_errors(path, values)
    name = RepositoryName(values[path[0].name], values[path[1].name])
    digest, principal = None, None
    namespaces: list[str] = [CREDENTIALS]
    keys: list[CacheKey] = []
    if is_key(bearer):
        digest = digest_key(bearer)
        keys.append(key_of_credential(digest))
    else:
        code_host = require_code_host(context.code_host, bearer)
        if not errors:
            principal = await _authenticate_token(request, code_host, bearer, name)
    # Errors in the path are reported after the credential is known; nothing is looked up for them.
    if not errors:
        namespaces += (EVERYTHING, repository_namespace(name))
        keys.append(key_of_repository(name))
        if expect is not None:
            keys.append(expect(name))
    session = await context.cache.open_session(namespaces, keys)
    directory = _Directory(session, context.reader)
    if digest is not None:
        principal = await authenticate(digest, directory, context.clock())
        rate_limit = request.app.get(RATE_LIMIT)
        if rate_limit is not None:
            await rate_limit.spend(request, principal.name)
    if principal is not None and principal.covers(name):
        request.app[ADMISSION_CONTROL].add_verified(request)
    if errors or principal is None:
        # The code host is asked about a repository: without one, a token cannot be verified.
        raise problems.invalid(errors)
    return principal, name, directory


async def _authenticate_token(
    request: web.Request, code_host: CodeHost, token: str, repository: RepositoryName
) -> Principal:
    """The principal that holds the token. A token that the host does not know is not counted."""
    rate_limit = request.app.get(RATE_LIMIT)
    if rate_limit is None:
        return await authenticate_token(code_host, token, repository)
    # Before the host is asked: that costs more than a response.
    await rate_limit.require_some(request, name_token_holder(code_host, token))
    principal = await authenticate_token(code_host, token, repository)
    await rate_limit.spend(request, principal.name)
    return principal
