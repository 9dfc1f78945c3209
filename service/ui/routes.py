"""The route table of the dashboard: the path and handler of every page."""

from __future__ import annotations

from typing import Final, NamedTuple

from aiohttp import web

from service.http.targets import UI_PREFIX
from service.middleware.layer import RouteHandler
from service.ui.assets import send_asset
from service.ui.guard import open_page, signed_in_page
from service.ui.links import SIGN_IN
from service.ui.pages import (
    docs,
    events,
    overview,
    quarantines,
    repositories,
    sign_in,
    test,
    tests,
    unknown,
    worst,
)

# These paths accept any names; the API validates them.
_REPOSITORY: Final = UI_PREFIX + "{owner}/{repository}"
_TEST: Final = _REPOSITORY + "/tests/{test_id}"


class PageRoute(NamedTuple):
    """One page, or one form that a page sends."""

    method: str
    path: str
    handler: RouteHandler


# Paths are matched in this order. `_` is free for assets, because it cannot be an owner's name.
PAGES: Final = (
    PageRoute("GET", UI_PREFIX + "_/{name}", send_asset),
    PageRoute("GET", UI_PREFIX + SIGN_IN, open_page(sign_in.show_form)),
    PageRoute("POST", UI_PREFIX + SIGN_IN, open_page(sign_in.sign_in)),
    PageRoute("POST", UI_PREFIX + "sign-out", open_page(sign_in.sign_out)),
    PageRoute("GET", UI_PREFIX, signed_in_page(repositories.show)),
    PageRoute("GET", UI_PREFIX + "docs", signed_in_page(docs.show)),
    PageRoute("GET", _REPOSITORY, signed_in_page(overview.show)),
    PageRoute("GET", _REPOSITORY + "/worst", signed_in_page(worst.show)),
    PageRoute("GET", _REPOSITORY + "/tests", signed_in_page(tests.show)),
    PageRoute("GET", _REPOSITORY + "/tests.csv", signed_in_page(tests.export)),
    PageRoute("GET", _TEST, signed_in_page(test.show)),
    PageRoute("GET", _TEST + "/failures/{failure_id}", signed_in_page(test.show_failure)),
    PageRoute("POST", _TEST + "/quarantine", signed_in_page(test.quarantine)),
    PageRoute("GET", _REPOSITORY + "/quarantines", signed_in_page(quarantines.show)),
    PageRoute("POST", _REPOSITORY + "/quarantines/end", signed_in_page(quarantines.end)),
    PageRoute("GET", _REPOSITORY + "/events", signed_in_page(events.show)),
    PageRoute("GET", _REPOSITORY + "/events/stream", signed_in_page(events.follow)),
    PageRoute("GET", _REPOSITORY + "/events.csv", signed_in_page(events.export_csv)),
    PageRoute("GET", _REPOSITORY + "/events.ndjson", signed_in_page(events.export_lines)),
    PageRoute("GET", UI_PREFIX + "{rest:.*}", open_page(unknown.show)),
)


async def lead_to_dashboard(request: web.Request) -> web.Response:
    """GET /."""
    del request
    return web.Response(status=303, headers={"Location": UI_PREFIX.removeprefix("/")})


def add_pages(router: web.UrlDispatcher) -> None:
    """Add all pages to the application."""
    router.add_get("/", lead_to_dashboard)
    router.add_get(UI_PREFIX.rstrip("/"), lead_to_dashboard)
    for page in PAGES:
        if page.method == "GET":
            # `add_get` also serves HEAD.
            router.add_get(page.path, page.handler)
        else:
            router.add_route(page.method, page.path, page.handler)
