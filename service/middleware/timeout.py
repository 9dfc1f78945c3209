"""How long a read may take where it asks another machine several times over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from indexing.errors import StoreUnavailableError
from service.http.methods import READS

# A client is told to come again before two seconds are over, however the time was spent: each
# question to a slow store may be answered within its own limit, and all of them together not.
READ_SECONDS: Final = 1.8

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def limit_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Break a read off that takes too long.

    Raises:
        StoreUnavailableError: then.
    """
    if request.method not in READS:
        return await handler(request)
    try:
        async with asyncio.timeout(READ_SECONDS) as limit:
            return await handler(request)
    except TimeoutError:
        if not limit.expired():
            raise
        raise StoreUnavailableError("the store takes too long to answer") from None
