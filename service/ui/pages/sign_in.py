"""Signing in, with a key or with a sign-in link, and signing out."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from service.auth.api_keys import digest_key, is_key
from service.auth.principal import Principal
from service.context import CONTEXT
from service.http.operations import Operation
from service.http.problems import Problem
from service.middleware.authentication import identify
from service.ui.forms import first, read_form
from service.ui.links import LINK_FIELD, SIGN_IN
from service.ui.page_context import PageContext
from service.ui.session import is_loopback

# The rest of a dashboard URL. It cannot name another host, and cannot break out of a header.
_NEXT: Final = re.compile(r"(?:[A-Za-z0-9\-_][!-\[\]-~]*)?")
_MAX_NEXT_LENGTH: Final = 2_000

_BAD_KEY: Final = "This key is not valid: mistyped, revoked, expired, or of another service."
_BAD_LINK: Final = "This link was used already, or is older than ten minutes. Sign in with a key."
_BAD_TRANSPORT: Final = (
    "This page came over plain HTTP, where anybody on the way could read a key. "
    "Open it by https://, or on the machine itself by http://127.0.0.1."
)


async def show_form(page: PageContext) -> web.StreamResponse:
    """GET /ui/sign-in; signs in if the URL has a sign-in link."""
    link = page.request.query.get(LINK_FIELD)
    following = _choose_next(page.request.query.get("next", ""))
    if link is None or page.request.method != "GET":
        return await page.show("sign_in.html", following=following, wrong=None)
    key_id = await page.dashboard.links.redeem(link)
    principal = None if key_id is None else await page.find_principal(key_id)
    if principal is None:
        return await page.show("sign_in.html", 403, following=following, wrong=_BAD_LINK)
    return _begin(page, principal, following)


async def sign_in(page: PageContext) -> web.StreamResponse:
    """POST /ui/sign-in."""
    form = await read_form(page.request, page.session, page.dashboard.public_url)
    following = _choose_next(first(form, "next"))
    if _is_plain_and_remote(page):
        return await page.show("sign_in.html", 403, following=following, wrong=_BAD_TRANSPORT)
    principal = await _check_key(page, first(form, "key"))
    if principal is None:
        return await page.show("sign_in.html", 403, following=following, wrong=_BAD_KEY)
    return _begin(page, principal, following)


async def sign_out(page: PageContext) -> web.StreamResponse:
    """POST /ui/sign-out."""
    await read_form(page.request, page.session, page.dashboard.public_url)
    response = page.go_to(page.dashboard.base + SIGN_IN)
    page.dashboard.sessions.remove(page.request, response)
    return response


def _begin(page: PageContext, principal: Principal, following: str) -> web.StreamResponse:
    if principal.key is None:
        raise RuntimeError("a session belongs to a key")
    response = page.go_to(page.dashboard.base + following)
    # A new session has a new secret for CSRF tokens, against session fixation.
    session = page.dashboard.sessions.new(principal.key.id)
    page.dashboard.sessions.write(page.request, response, session)
    return response


async def _check_key(page: PageContext, text: str) -> Principal | None:
    if not is_key(text):
        return None
    context, digest = page.request.app[CONTEXT], digest_key(text)
    reader = await context.readers.open(Operation.TEST, digest, None)
    try:
        return identify(await reader.find_key(digest), digest, page.now)
    except Problem:
        return None


def _choose_next(text: str) -> str:
    """Return the page to open after signing in, relative to the dashboard; empty if not valid."""
    if len(text) > _MAX_NEXT_LENGTH or not _NEXT.fullmatch(text):
        return ""
    return text


def _is_plain_and_remote(page: PageContext) -> bool:
    """Whether the page came over plain HTTP from another machine; browsers drop its cookie."""
    origin = page.request.headers.get("Origin", "")
    return origin.startswith("http:") and not is_loopback(page.request)
