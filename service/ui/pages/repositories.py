"""The repositories that the key sees."""

from __future__ import annotations

from aiohttp import web

from indexing.names import RepositoryName
from service.auth.principal import Principal
from service.context import CONTEXT
from service.middleware.authorization import covers
from service.ui.page_context import PageContext


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/."""
    known = await page.request.app[CONTEXT].reader.list_repositories()
    names: list[RepositoryName] = [each.name for each in known if covers(principal, each.name)]
    return await page.show("repositories.html", repositories=names)
