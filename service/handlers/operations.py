"""The pages for those who run the service: its health, its counts, the OpenAPI document."""

from __future__ import annotations

from typing import Final

import structlog
from aiohttp import web

from indexing.errors import StoreError
from service.context import CONTEXT, LIFECYCLE
from service.http import problems
from service.middleware.metrics import CONTENT_TYPE, METRICS

_OK: Final = b'{"status":"ok"}'

_log = structlog.get_logger(__name__)


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
        _log.warning("not ready", reason=str(error))
        raise problems.unavailable("the store is unavailable, retry later") from error
    return web.Response(body=_OK, content_type="application/json")


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics, where the operator asks for it."""
    counts = request.app.get(METRICS)
    if counts is None:
        raise problems.generic(404)
    headers = {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
    return web.Response(body=counts.render(), headers=headers)


async def openapi(request: web.Request) -> web.Response:
    """GET /openapi.json."""
    return web.Response(body=request.app[CONTEXT].openapi, content_type="application/json")
