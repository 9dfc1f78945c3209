"""The page for a path that no page has."""

from __future__ import annotations

from aiohttp import web

from service.http import problems
from service.ui.visit import Visit


async def show(_visit: Visit) -> web.StreamResponse:
    """GET of any other path."""
    raise problems.generic(404)
