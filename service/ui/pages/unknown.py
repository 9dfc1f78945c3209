"""The page for unknown paths, with status 404."""

from __future__ import annotations

from aiohttp import web

from service.http import problems
from service.ui.page_context import PageContext


async def show(_page: PageContext) -> web.StreamResponse:
    """GET of any other path."""
    raise problems.generic(404)
