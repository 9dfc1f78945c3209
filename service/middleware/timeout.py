"""The timeout of reads that ask another machine several times."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from indexing.errors import StoreUnavailableError
from service.http.methods import READS

# A client gets a 503 within two seconds, however the time was spent: a slow store may answer each
# request within its own limit, and all of them together too late.
READ_SECONDS: Final = 1.8


@web.middleware
async def limit_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Cancel a read that takes too long.

    Raises:
        StoreUnavailableError: when it did.
    """
    if request.method not in READS:
        return await handler(request)
    try:
        async with asyncio.timeout(READ_SECONDS) as limit:
            return await handler(request)
    except TimeoutError:
        if not limit.expired():
            raise
        raise StoreUnavailableError("the store did not answer in time, retry later") from None
