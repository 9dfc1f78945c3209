"""The pages for those who run the service: its health, and the OpenAPI document."""

from __future__ import annotations

import logging
from typing import Final

from aiohttp import web

from indexing.errors import StoreError
from service.context import CONTEXT, LIFECYCLE
from service.http import problems

_OK: Final = b'{"status":"ok"}'

_log = logging.getLogger(__name__)


async def live(_request: web.Request) -> web.Response:
    """GET /health/live: the process answers."""
    return web.Response(body=_OK, content_type="application/json")


async def ready(request: web.Request) -> web.Response:
    """GET /health/ready: the store answers too, and the process is not about to stop."""
    if request.app[LIFECYCLE].stopping:
        raise problems.unavailable("the service is shutting down")
    try:
        await request.app[CONTEXT].reader.ping()
    except StoreError as error:
        _log.warning("not ready", extra={"reason": str(error)})
        raise problems.store_unavailable() from error
    return web.Response(body=_OK, content_type="application/json")


async def openapi(request: web.Request) -> web.Response:
    """GET /openapi.json."""
    document = await request.app[CONTEXT].openapi.get()
    return web.Response(body=document, content_type="application/json")
