"""The layer around every page: requires a session, and shows errors as pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeAlias
from urllib.parse import quote

from aiohttp import web

from indexing.errors import StoreUnavailableError
from service.auth.principal import Principal
from service.cache.confirmed import CacheUnavailableError
from service.context import PRINCIPAL
from service.http.methods import READS
from service.http.targets import MAX_TARGET_BYTES, UI_PREFIX
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.errors import explain, find_route
from service.middleware.layer import RouteHandler
from service.middleware.rate_limit import RATE_LIMIT
from service.ui.links import ENDED_FIELD, NEXT_FIELD, SIGN_IN
from service.ui.page_context import PageContext, sessions_unavailable

PageHandler: TypeAlias = Callable[[PageContext], Awaitable[web.StreamResponse]]
SignedInHandler: TypeAlias = Callable[[PageContext, Principal], Awaitable[web.StreamResponse]]

# A long target is quoted a second time, and then exceeds what proxies and this service accept. A
# proxy may add a prefix to the path.
_MAX_LOCATION: Final = MAX_TARGET_BYTES - 500

# The endings of routes that are downloads.
_EXPORTS: Final = (".csv", ".ndjson")

_log = logging.getLogger(__name__)


def open_page(handler: PageHandler) -> RouteHandler:
    """Wrap the handler of a page that needs no credential."""

    async def answer(request: web.Request) -> web.StreamResponse:
        page = PageContext.begin(request)
        try:
            return await handler(page)
        except Exception as error:  # noqa: BLE001 - any error is shown as a page
            return await _explain(page, error)

    return answer


def signed_in_page(handler: SignedInHandler) -> RouteHandler:
    """Wrap the handler of a page that needs a valid session, else redirects to the sign-in page."""

    async def answer(request: web.Request) -> web.StreamResponse:
        page = PageContext.begin(request)
        # Only reads have a time limit: a change must not stop half-way.
        seconds = page.dashboard.page_seconds if request.method in READS else None
        try:
            async with asyncio.timeout(seconds):
                return await _answer(page, handler)
        except Exception as error:  # noqa: BLE001 - any error is shown as a page
            return await _explain(page, error)

    return answer


async def _answer(page: PageContext, handler: SignedInHandler) -> web.StreamResponse:
    request = page.request
    rate_limit = request.app.get(RATE_LIMIT)
    principal = page.principal = await page.find_principal(rate_limit=rate_limit)
    if principal is None:
        return _redirect_to_sign_in(page)
    request[PRINCIPAL] = principal
    request.app[ADMISSION_CONTROL].add_session(request, principal.name)
    # The request of a token was counted when it was verified.
    if rate_limit is not None and principal.key is not None:
        await rate_limit.spend(request, principal.name)
    return await handler(page, principal)


def _redirect_to_sign_in(page: PageContext) -> web.Response:
    request = page.request
    has_ended = page.session is not None and page.session.is_signed_in
    ended = f"{ENDED_FIELD}=1" if has_ended else ""
    target = _sign_in_at(page, ended)
    # Relative to the dashboard, because a proxy may strip a prefix of the path.
    within = request.raw_path.removeprefix(UI_PREFIX)
    if request.method == "POST":
        # To the page of the form, whose address is that of the form without its last part.
        within = within.partition("?")[0].rpartition("/")[0]
    elif (find_route(request) or "").endswith(_EXPORTS):
        # To the page with the view: a download would leave the browser on the sign-in page.
        path, mark, query = within.partition("?")
        within = path.rpartition(".")[0] + mark + query
    if within:
        returning = _sign_in_at(page, f"{NEXT_FIELD}={quote(within, safe='')}", ended)
        if len(returning) <= _MAX_LOCATION:
            target = returning
    response = page.go_to(target)
    if has_ended:
        page.dashboard.sessions.remove(request, response)
    return response


def _sign_in_at(page: PageContext, *asked: str) -> str:
    """Return the path of the sign-in page with these parameters."""
    return "?".join(filter(None, (page.dashboard.base + SIGN_IN, "&".join(filter(None, asked)))))


async def _explain(page: PageContext, error: Exception) -> web.StreamResponse:
    """Return the page that describes an error."""
    if isinstance(error, CacheUnavailableError):
        _log.warning("sessions unavailable", extra={"reason": str(error)})
        problem = sessions_unavailable()
    else:
        if isinstance(error, TimeoutError):
            # A page takes long only while the store does.
            error = StoreUnavailableError("the page took too long")
        problem = explain(page.request, error, _log)
    template = "problem_part.html" if page.is_fragment else "problem.html"
    seconds = problem.headers.get("Retry-After")
    response = await page.show(
        template,
        problem.status,
        problem=problem,
        retry_at=None if seconds is None else page.now + timedelta(seconds=int(seconds)),
        has_query=bool(page.request.rel_url.raw_query_string),
    )
    response.headers.update(problem.headers)
    if page.is_fragment:
        # Within the element that htmx would replace, so that the next answer has a place to go.
        response.headers["HX-Reswap"] = "innerHTML"
    return response
