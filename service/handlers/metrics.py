"""The page of metrics, if the operator turns them on."""

from __future__ import annotations

from aiohttp import web

from service.middleware.metrics import CONTENT_TYPE, METRICS


async def show_metrics(request: web.Request) -> web.Response:
    """GET /metrics."""
    headers = {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
    return web.Response(body=await request.app[METRICS].render(), headers=headers)
