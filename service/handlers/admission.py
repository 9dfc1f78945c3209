"""The checks before every handler, in their order: credential, path, repository, scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from indexing.models.keys import ApplicationKey
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.auth.api_keys import digest_key, is_key
from service.auth.authentication import (
    authenticate,
    find_holder_of_token,
    name_of_token,
    read_bearer,
    require_host,
)
from service.auth.authorization import find_visible, find_writable, require_scope
from service.auth.code_host.access import Host
from service.auth.principal import Caller
from service.cache import reader as asking
from service.cache.keys import (
    CREDENTIALS,
    EVERYTHING,
    Question,
    ask_key,
    ask_repository,
    repository_generation,
)
from service.cache.session import Visit
from service.context import CONTEXT, Context
from service.http import problems
from service.http.path_params import PathParameter, find_path_errors
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.rate_limit import RATE_LIMIT
from service.routes import Route


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may be answered: of which repository, to whom, through which visit."""

    context: Context
    repository: RepositoryName
    caller: Caller
    visit: Visit


@dataclass(frozen=True, slots=True)
class _Directory:
    """Keys and repositories as one request sees them: through the cache."""

    visit: Visit
    reader: Reader

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        return await asking.find_key(self.visit, self.reader, digest)

    async def find_repository(self, name: RepositoryName) -> RepositoryName | None:
        return await asking.find_repository(self.visit, self.reader, name)


async def admit(
    request: web.Request,
    route: Route,
    expect: Callable[[RepositoryName], Question] | None = None,
) -> Admission:
    """Let a request in to the repository that its path names: its first two parameters.

    `expect` gives the question that will be asked of it, where the path alone tells: all that the
    cache knows of the request is then looked for at once.

    Raises:
        Problem: 403 for the credential, then 422 for the path's form, then 404 for the
            repository, then 403 for the scope.
    """
    caller, name, directory = await _identify(request, route.path, expect)
    found = await find_visible(caller, name, directory)
    require_scope(caller, route.operation)
    return Admission(request.app[CONTEXT], found, caller, directory.visit)


async def admit_to_write(request: web.Request, route: Route) -> RepositoryName:
    """Let a request in to write to the repository that its path names, which may be a new one.

    Raises:
        Problem: in the order of `admit`.
    """
    caller, name, directory = await _identify(request, route.path)
    found = await find_writable(caller, name, route.operation, directory)
    request.app[ADMISSION_CONTROL].let_in(request)
    return found


async def _identify(
    request: web.Request,
    path: tuple[PathParameter, ...],
    expect: Callable[[RepositoryName], Question] | None = None,
) -> tuple[Caller, RepositoryName, _Directory]:
    """Who asks, and for which repository."""
    context = request.app[CONTEXT]
    bearer = read_bearer(request.headers)
    values = request.match_info
    errors = find_path_errors(path, values)
    name = RepositoryName(values[path[0].name], values[path[1].name])
    digest, caller = None, None
    generations: list[str] = [CREDENTIALS]
    questions: list[Question] = []
    if is_key(bearer):
        digest = digest_key(bearer)
        questions.append(ask_key(digest))
    else:
        host = require_host(context.host, bearer)
        if not errors:
            caller = await _ask_host(request, host, bearer, name)
    # What is wrong with the path is said after the credential is known, and not looked up.
    if not errors:
        generations += (EVERYTHING, repository_generation(name))
        questions.append(ask_repository(name))
        if expect is not None:
            questions.append(expect(name))
    visit = await context.cache.visit(generations, questions)
    directory = _Directory(visit, context.reader)
    if digest is not None:
        caller = await authenticate(digest, directory, context.clock())
        rates = request.app.get(RATE_LIMIT)
        if rates is not None:
            await rates.spend(request, caller.name)
    if caller is not None and caller.covers(name):
        request.app[ADMISSION_CONTROL].recognise(request)
    if errors or caller is None:
        # The host is asked about a repository: a token is not known until there is one.
        raise problems.invalid(errors)
    return caller, name, directory


async def _ask_host(
    request: web.Request, host: Host, token: str, repository: RepositoryName
) -> Caller:
    """Whoever has that token. What the host does not know is nobody's, and counted nowhere."""
    rates = request.app.get(RATE_LIMIT)
    if rates is None:
        return await find_holder_of_token(host, token, repository)
    # Before the host is asked: what it is asked costs more than an answer.
    await rates.require_some(request, name_of_token(host, token))
    caller = await find_holder_of_token(host, token, repository)
    await rates.spend(request, caller.name)
    return caller
