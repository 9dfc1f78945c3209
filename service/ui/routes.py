"""The route table of the dashboard: the path and handler of every page.

Pages are imported by their names, so that a process answers requests to the API before it has
loaded the dashboard.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from aiohttp import web

from service.http.targets import UI_PREFIX
from service.middleware.layer import RouteHandler
from service.ui.assets import send_asset
from service.ui.links import SIGN_IN

# These paths accept any names; the API validates them.
_REPOSITORY: Final = UI_PREFIX + "{owner}/{repository}"
_TEST: Final = _REPOSITORY + "/tests/{test_id}"


class PageRoute(NamedTuple):
    """One page, or one form that a page sends.

    `page` is a module of `service.ui.pages` and a function in it.
    """

    method: str
    path: str
    page: str
    needs_session: bool = True


# Paths are matched in this order.
PAGES: Final = (
    PageRoute("GET", UI_PREFIX + SIGN_IN, "sign_in.show_form", needs_session=False),
    PageRoute("POST", UI_PREFIX + SIGN_IN, "sign_in.sign_in", needs_session=False),
    PageRoute("GET", UI_PREFIX + "sign-out", "sign_in.redirect", needs_session=False),
    PageRoute("POST", UI_PREFIX + "sign-out", "sign_in.sign_out", needs_session=False),
    PageRoute("GET", UI_PREFIX, "repositories.show"),
    PageRoute("GET", UI_PREFIX + "docs", "docs.show"),
    PageRoute("GET", UI_PREFIX + "{owner}", "repositories.redirect"),
    PageRoute("GET", _REPOSITORY, "overview.show"),
    PageRoute("GET", _REPOSITORY + "/worst", "worst.show"),
    PageRoute("GET", _REPOSITORY + "/tests", "tests.show"),
    PageRoute("GET", _REPOSITORY + "/tests.csv", "tests.export"),
    PageRoute("GET", _TEST, "test.show"),
    PageRoute("GET", _TEST + "/failures/{failure_id}", "test.show_failure"),
    PageRoute("POST", _TEST + "/quarantine", "test.quarantine"),
    PageRoute("GET", _TEST + "/quarantine", "test.redirect"),
    PageRoute("GET", _REPOSITORY + "/quarantines", "quarantines.show"),
    PageRoute("POST", _REPOSITORY + "/quarantines/end", "quarantines.end"),
    PageRoute("GET", _REPOSITORY + "/quarantines/end", "quarantines.redirect"),
    PageRoute("GET", _REPOSITORY + "/events", "events.show"),
    PageRoute("GET", _REPOSITORY + "/events/counts", "events.show_counts"),
    PageRoute("GET", _REPOSITORY + "/events/stream", "events.follow"),
    PageRoute("GET", _REPOSITORY + "/events.csv", "events.export_csv"),
    PageRoute("GET", _REPOSITORY + "/events.ndjson", "events.export_lines"),
    PageRoute("GET", UI_PREFIX + "{rest:.*}", "unknown.show", needs_session=False),
)


async def redirect_to_dashboard(request: web.Request) -> web.Response:
    """GET /."""
    del request
    return web.Response(status=303, headers={"Location": UI_PREFIX.removeprefix("/")})


def add_pages(router: web.UrlDispatcher) -> None:
    """Add all pages to the application."""
    router.add_get("/", redirect_to_dashboard)
    router.add_get(UI_PREFIX.rstrip("/"), redirect_to_dashboard)
    # `_` cannot be an owner's name.
    router.add_get(UI_PREFIX + "_/{name}", send_asset)
    for route in PAGES:
        handler = _load_when_requested(route)
        if route.method == "GET":
            # `add_get` also serves HEAD.
            router.add_get(route.path, handler)
        else:
            router.add_route(route.method, route.path, handler)


def _load_when_requested(route: PageRoute) -> RouteHandler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await load_page(route)(request)

    return answer


@cache
def load_page(route: PageRoute) -> RouteHandler:
    """Import a page, and what all pages need; return its handler."""
    # Imported here, as it loads Jinja2 and cryptography.
    from service.ui.guard import open_page, signed_in_page

    module, function = route.page.split(".")
    handler = getattr(import_module(f"service.ui.pages.{module}"), function)
    return signed_in_page(handler) if route.needs_session else open_page(handler)


def load_pages() -> None:
    """Import all pages, so that none is slow when it is first requested."""
    for route in PAGES:
        load_page(route)
