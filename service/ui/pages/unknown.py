"""The page for unknown paths, with status 404; a slash too many leads to the page without it."""

from __future__ import annotations

from aiohttp import web

from service.http import problems
from service.http.targets import UI_PREFIX
from service.ui.page_context import PageContext


async def show(page: PageContext) -> web.StreamResponse:
    """GET of any other path."""
    path, mark, query = page.request.raw_path.removeprefix(UI_PREFIX).partition("?")
    if not path.endswith("/"):
        raise problems.generic(404)
    return page.go_to(page.dashboard.base + path.rstrip("/") + mark + query)
