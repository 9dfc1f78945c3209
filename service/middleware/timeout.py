"""The timeout of reads that call a store on another machine several times."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp.web import BaseRequest, StreamResponse

from indexing.errors import StoreUnavailableError
from service.http.methods import READS
from service.middleware.layer import Handler

# A client gets a 503 within two seconds, however the time was spent: a slow store may answer each
# call within its own limit, but all of them together too late.
READ_SECONDS: Final = 1.8
# Shorter for a page of the dashboard, which still has to render the error.
PAGE_SECONDS: Final = READ_SECONDS - 0.2
# Its gauges limit their own reads of the store and are left out after that. The rest of the page
# matters most while the store does not answer.
_LIMITS_ITSELF: Final = "/metrics"


def limit_time(handler: Handler) -> Handler:
    """Cancel a read that takes too long, and raise `StoreUnavailableError`."""

    async def answer(request: BaseRequest) -> StreamResponse:
        if request.method not in READS or request.raw_path == _LIMITS_ITSELF:
            return await handler(request)
        try:
            async with asyncio.timeout(READ_SECONDS) as limit:
                return await handler(request)
        except TimeoutError:
            if not limit.expired():
                raise
            raise StoreUnavailableError("the store did not answer in time, retry later") from None

    return answer
