"""Finds the principal of a session, anew for every request."""

from __future__ import annotations

from aiohttp import web

from indexing.errors import InvalidValueError
from indexing.names import RepositoryName, check_owner, check_repository, parse_repository
from service.auth.principal import Principal
from service.context import CONTEXT
from service.http.operations import Operation
from service.http.problems import Problem
from service.middleware.access import make_principal, verify_token
from service.middleware.rate_limit import RateLimit
from service.ui.session import Session
from service.ui.token_sessions import SignedToken, TokenSessions


async def find_of_key_id(request: web.Request, key_id: str) -> Principal | None:
    """Return the principal of the key with that id; None if it is not valid."""
    context = request.app[CONTEXT]
    reader = await context.readers.open(Operation.TEST, None, None)
    key = await reader.get_key(key_id)
    try:
        return None if key is None else make_principal(key, context.clock())
    except Problem:
        return None


async def find_of_session(
    request: web.Request,
    session: Session,
    tokens: TokenSessions | None,
    repository: RepositoryName | None,
    rate_limit: RateLimit | None,
) -> Principal | None:
    """Return who is signed in; None if the session has ended or its credential is not valid.

    A token is verified for that repository, or without one for the one that was named with it. A
    `rate_limit` counts the request, of a token alone.

    Raises:
        CacheUnavailableError: the session cannot be read.
        Problem: 429 if the rate limit is exceeded, 503 if the code host is unavailable.
    """
    if session.key_id is not None:
        return await find_of_key_id(request, session.key_id)
    if session.ticket is None or tokens is None:
        return None
    signed = await tokens.find(session.ticket)
    if signed is None:
        return None
    principal = await find_of_token(request, signed, repository, rate_limit)
    if principal is None:
        await tokens.end(session.ticket)
    return principal


async def find_of_token(
    request: web.Request,
    signed: SignedToken,
    repository: RepositoryName | None,
    rate_limit: RateLimit | None,
) -> Principal | None:
    """Return the principal of a token, as `find_of_session` does."""
    code_host = request.app[CONTEXT].code_host
    if code_host is None:
        return None
    try:
        return await verify_token(
            request, rate_limit, code_host, signed.token, repository or signed.repository
        )
    except Problem as problem:
        if problem.status == 403:
            return None
        raise


def read_repository(owner: str | None, name: str | None) -> RepositoryName | None:
    """Return the repository with these names; None if one is missing or malformed."""
    if owner is None or name is None:
        return None
    try:
        return RepositoryName(check_owner(owner), check_repository(name))
    except InvalidValueError:
        return None


def read_full_name(text: str) -> RepositoryName | None:
    """Return the repository that is written as OWNER/NAME; None if the text is no such name."""
    try:
        return parse_repository(text)
    except InvalidValueError:
        return None
