"""The id of a request, which responses, pages, log lines and spans name."""

from __future__ import annotations

from typing import Final

from aiohttp import web

# Set by the outermost layer.
REQUEST_ID: Final = web.RequestKey("request_id", str)
