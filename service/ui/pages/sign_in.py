"""Signing in, with a key, a token of the code host or a sign-in link, and signing out."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from indexing.errors import StoreUnavailableError
from service.auth.api_keys import KEY_PREFIX, digest_key, is_key
from service.auth.code_host.tokens import is_token
from service.auth.principal import Principal
from service.cache.confirmed import CacheUnavailableError
from service.context import CONTEXT
from service.http.methods import READS
from service.http.operations import Operation
from service.http.problems import Problem
from service.http.session_cookie import forwarded_scheme, is_on_loopback
from service.middleware.access import OPERATIONS, covers, identify
from service.middleware.rate_limit import RATE_LIMIT
from service.ui.forms import OldFormProblem, first, read_form
from service.ui.links import ENDED_FIELD, LINK_FIELD, NEXT_FIELD, SIGN_IN
from service.ui.page_context import PageContext
from service.ui.principals import find_of_key_id, find_of_token, read_full_name
from service.ui.queries import MAX_QUERY_LENGTH, write_pairs
from service.ui.token_sessions import SignedToken

# The rest of a dashboard URL. It cannot name another host, and cannot break out of a header.
_NEXT: Final = re.compile(r"(?:[A-Za-z0-9\-_?][!-~]*)?")
# A path with a segment of two dots, as browsers read it, leads out of the dashboard.
_LEAVES: Final = re.compile(r"[^?#]*[/\\](?:\.|%2e){2}(?:[/\\?#]|$)", re.IGNORECASE)
# The path, and the longest query of a page.
_MAX_NEXT_LENGTH: Final = 1_000 + MAX_QUERY_LENGTH
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9\-]+/[A-Za-z0-9_\-.]+")
# The query parameter that says that the form was too old.
_OLD_FIELD: Final = "old"
# Of a name in the form that is shown again.
_MAX_SHOWN: Final = 300

_CANNOT_READ: Final = (
    "This key is for uploads: its scope may not read tests. Sign in with one of the scope read."
)
_BAD_KEY: Final = "This key is not valid: mistyped, revoked, expired, or of another service."
_REFUSED: Final = (
    "This is no valid key, and no token that the code host accepts: "
    "mistyped, revoked, expired, or of another service."
)
_NO_REPOSITORY: Final = "With a token, name a repository that it can read, as OWNER/NAME."
_HIDDEN: Final = "The code host shows this token no repository of that name."
_BAD_LINK: Final = "This link was used already, or is older than ten minutes. Sign in with a key."
_BAD_TRANSPORT: Final = (
    "This page came over plain HTTP, where anybody on the way could read a key. "
    "Open it by https://, or on the machine itself by http://127.0.0.1."
)


_log = logging.getLogger(__name__)


async def show_form(page: PageContext) -> web.StreamResponse:
    """GET /ui/sign-in; signs in if the URL has a sign-in link."""
    link = page.request.query.get(LINK_FIELD)
    is_plain = _is_plain_and_remote(page)
    if link is None or page.request.method != "GET":
        if page.request.query.keys() & {NEXT_FIELD, _OLD_FIELD} and await _is_signed_in(page):
            # Another tab has signed in since this one was led here.
            return page.go_to(page.dashboard.base + _choose_next(page))
        return await _show(
            page,
            _guess_repository(_choose_next(page)),
            has_ended=ENDED_FIELD in page.request.query,
            was_old=_OLD_FIELD in page.request.query,
            warning=_BAD_TRANSPORT if is_plain else None,
        )
    if is_plain:
        # The browser would drop the session, and the link would be used up.
        return await _show(page, wrong=_BAD_TRANSPORT)
    key_id = await page.dashboard.links.redeem(link)
    if key_id is None or await find_of_key_id(page.request, key_id) is None:
        return await _show(page, wrong=_BAD_LINK)
    return await _begin(page, key_id=key_id)


async def sign_in(page: PageContext) -> web.StreamResponse:
    """POST /ui/sign-in."""
    if _is_plain_and_remote(page):
        # Before the form is read: without its cookie, it looks like the form of another session.
        return await _show(page, wrong=_BAD_TRANSPORT)
    try:
        form = await read_form(page.request, page.session, page.dashboard.public_url)
    except OldFormProblem:
        # Not by a 403 with the form: only a GET may begin the session that the form needs.
        asked = [(NEXT_FIELD, _choose_next(page)), (_OLD_FIELD, "1")]
        query = write_pairs(pair for pair in asked if pair[1])
        return page.go_to(f"{page.dashboard.base}{SIGN_IN}?{query}")
    credential, repository = first(form, "key"), first(form, "repository")
    # What is almost a key is not sent to the code host.
    if page.dashboard.token_sessions is None or credential.startswith(KEY_PREFIX):
        principal = await _verify_key(page, credential)
        if principal is None or principal.key is None:
            return await _show(page, repository, wrong=_BAD_KEY)
        if Operation.SEARCH not in OPERATIONS[principal.scope]:
            return await _show(page, repository, wrong=_CANNOT_READ)
        return await _begin(page, key_id=principal.key.id)
    return await _sign_in_with_token(page, credential, repository)


async def _sign_in_with_token(page: PageContext, token: str, repository: str) -> web.StreamResponse:
    tokens = page.dashboard.token_sessions
    if tokens is None or not is_token(token):
        return await _show(page, repository, wrong=_REFUSED)
    named = read_full_name(repository)
    if named is None:
        return await _show(page, repository, wrong_repository=_NO_REPOSITORY)
    signed = SignedToken(token, named)
    rate_limit = page.request.app.get(RATE_LIMIT)
    principal = await find_of_token(page.request, signed, None, rate_limit)
    if principal is None:
        return await _show(page, repository, wrong=_REFUSED)
    if not covers(principal, named):
        return await _show(page, repository, wrong_repository=_HIDDEN)
    return await _begin(page, ticket=tokens.begin(signed, principal.name))


async def redirect(page: PageContext) -> web.StreamResponse:
    """GET the address of the form to sign out, which was refused."""
    return page.go_to(page.dashboard.base)


async def sign_out(page: PageContext) -> web.StreamResponse:
    """POST /ui/sign-out."""
    if page.session is None or not page.session.is_signed_in:
        # It has ended, or another window has signed out. No cookie is removed: forms of other sites
        # come without one, and would end the session of the person who is signed in.
        return page.go_to(page.dashboard.base + SIGN_IN)
    await read_form(page.request, page.session, page.dashboard.public_url)
    await _end_old(page)
    response = page.go_to(page.dashboard.base + SIGN_IN)
    page.dashboard.sessions.remove(page.request, response)
    return response


async def _show(
    page: PageContext,
    repository: str = "",
    *,
    wrong: str | None = None,
    wrong_repository: str | None = None,
    has_ended: bool = False,
    was_old: bool = False,
    warning: str | None = None,
) -> web.StreamResponse:
    return await page.show(
        "sign_in.html",
        403 if wrong or wrong_repository else 200,
        begins_session=page.request.method in READS,
        has_ended=has_ended,
        was_old=was_old,
        repository_text=repository[:_MAX_SHOWN],
        takes_tokens=page.dashboard.token_sessions is not None,
        warning=warning,
        wrong=wrong,
        wrong_repository=wrong_repository,
    )


async def _is_signed_in(page: PageContext) -> bool:
    """Whether the session is valid; False if nobody can tell now."""
    try:
        return await page.find_principal() is not None
    except (CacheUnavailableError, Problem, StoreUnavailableError):
        return False


async def _begin(
    page: PageContext,
    *,
    key_id: str | None = None,
    ticket: Awaitable[str] | None = None,
) -> web.StreamResponse:
    # Before the new one begins: a token has only so many places.
    await _end_old(page)
    response = page.go_to(page.dashboard.base + _choose_next(page))
    # A new session has a new secret for CSRF tokens, against session fixation.
    session = page.dashboard.sessions.new(key_id, None if ticket is None else await ticket)
    page.dashboard.sessions.write(page.request, response, session)
    return response


async def _end_old(page: PageContext) -> None:
    """Forget the token of the session that the request came with."""
    tokens = page.dashboard.token_sessions
    if tokens is None or page.session is None or page.session.ticket is None:
        return
    try:
        await tokens.end(page.session.ticket)
    except CacheUnavailableError as error:
        # Nobody can decrypt it without the cookie, which the browser drops.
        _log.warning("token of an ended session not removed", extra={"reason": str(error)})


async def _verify_key(page: PageContext, text: str) -> Principal | None:
    """Return the principal of the key that somebody typed; None if it is not valid."""
    if not is_key(text):
        return None
    context, digest = page.request.app[CONTEXT], digest_key(text)
    reader = await context.readers.open(Operation.TEST, digest, None)
    try:
        return identify(await reader.find_key(digest), digest, page.now)
    except Problem:
        return None


def _guess_repository(following: str) -> str:
    """Return the repository of the page to open after signing in; empty if it has none."""
    match = _REPOSITORY.match(following)
    return "" if match is None else match[0]


def _choose_next(page: PageContext) -> str:
    """Return the page to open after signing in, relative to the dashboard; empty if not valid."""
    text = page.request.query.get(NEXT_FIELD, "")
    if len(text) > _MAX_NEXT_LENGTH or not _NEXT.fullmatch(text) or _LEAVES.match(text):
        return ""
    return text


def _is_plain_and_remote(page: PageContext) -> bool:
    """Whether the page came over plain HTTP from another machine; browsers drop its cookie.

    Forms name their scheme in `Origin`. Other requests have no such header, but browsers send
    `Sec-Fetch-Site` over HTTPS and on loopback alone (https://www.w3.org/TR/fetch-metadata/).
    """
    request = page.request
    if is_on_loopback(request):
        return False
    origin = request.headers.get("Origin")
    if origin is not None:
        return origin.startswith("http:")
    public = urlsplit(page.dashboard.public_url or "")
    has_tls = forwarded_scheme(request) == "https" or (
        public.scheme == "https" and public.netloc == request.host
    )
    return not has_tls and "Sec-Fetch-Site" not in request.headers
