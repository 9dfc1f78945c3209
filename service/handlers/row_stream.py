"""Streams all rows of a list, if a client prefers lines of JSON or CSV to pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web

from indexing.fairness import FairSemaphore
from indexing.models.paging import Anchor, HasKey, Page
from service.context import PRINCIPAL, REPOSITORY, find_access_check
from service.http import problems
from service.http.field_errors import FieldError
from service.http.operations import Operation
from service.http.query_string import CURSOR_FIELD
from service.http.raw_response import headers_of
from service.pagination.paginator import ListQuery
from service.streaming.lasting_access import LastingAccess
from service.streaming.limits import StreamLimit
from service.streaming.response import BrokenStreamError, StreamedResponse
from service.streaming.rows import CONTENT_TYPES, RowFormat

R = TypeVar("R", bound=HasKey)

# The size of a page; one page is in memory at a time.
ROWS_AT_ONCE: Final = 250

# How much is sent between two checks of access: a client may take 20 seconds for it.
PIECE_BYTES: Final = 64 * 1024

# A client loads one file or a few at a time; this many streams leave time for other requests.
MAX_STREAMS_PER_PRINCIPAL: Final = 4
MAX_STREAMS: Final = 32

ROW_STREAMS: Final = web.AppKey("row_streams", StreamLimit)
# Streams take turns at writing rows: one piece in an iteration of the event loop, however many
# there are. An event of a megabyte takes some milliseconds.
ROW_TURNS: Final = web.AppKey("row_turns", FairSemaphore)


Read = Callable[[Anchor[Any], int], Awaitable[Page[R]]]


async def stream_rows(
    request: web.Request,
    query: ListQuery,
    operation: Operation,
    media_type: str,
    read: Read[R],
    rows: RowFormat[R],
) -> web.StreamResponse:
    """Return a response that streams all rows of a list, read by `read`, as that media type.

    It breaks off soon after the request would not be allowed any more.

    Raises:
        Problem: 422 with a cursor, as a stream begins with the first row; 429 or 503 if too many
            streams are open.
    """
    if query.parameters[CURSOR_FIELD] is not None:
        detail = f"cannot be used with {media_type}, which begins with the first row"
        raise problems.invalid([FieldError("query", CURSOR_FIELD, detail)])
    principal = request[PRINCIPAL].name
    release = request.app[ROW_STREAMS].acquire(principal, request[REPOSITORY].owner)
    try:
        # Before the response begins, a failed read is still reported as a problem.
        first = await read(Anchor(), ROWS_AT_ONCE)
    except BaseException:
        release()
        raise
    headers = headers_of(ignored=query.ignored, negotiated=True)
    headers["Content-Type"] = CONTENT_TYPES[media_type]
    access = LastingAccess(partial(find_access_check(request, operation).run, request))
    turn = partial(request.app[ROW_TURNS].slot, principal)
    return StreamedResponse(headers, _write(read, rows, first, media_type, access, turn), release)


async def _write(
    read: Read[R],
    rows: RowFormat[R],
    page: Page[R],
    media_type: str,
    access: LastingAccess,
    turn: Callable[[], AbstractAsyncContextManager[None]],
) -> AsyncGenerator[bytes, None]:
    written = rows.begin(media_type)
    while True:
        at = 0
        while at < len(page.rows):
            async with turn():
                while at < len(page.rows) and len(written) < PIECE_BYTES:
                    written += rows.write(media_type, page.rows[at])
                    at += 1
                # The next turn begins in another iteration.
                await asyncio.sleep(0)
            for start in range(0, len(written), PIECE_BYTES):
                if not await access.lasts():
                    raise BrokenStreamError("access has ended")
                yield written[start : start + PIECE_BYTES]
            written = b""
        if written:
            # The header of a list without rows.
            yield written
        if not page.has_next:
            return
        page = await read(Anchor(page.rows[-1].key), ROWS_AT_ONCE)
