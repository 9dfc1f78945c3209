"""The event log: stored JSON text, joined to a page."""

from __future__ import annotations

from functools import partial
from typing import Final

import orjson
from aiohttp import web

from indexing.models.events import EventKey, EventRow
from service.handlers.event_query import choose_window, make_query
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.handlers.row_stream import RowStream, stream_rows
from service.http.raw_response import respond_whole
from service.middleware.response_cache import find_row_format, headers_of
from service.pagination.sort_keys import EVENT_KEYS, pack_ends
from service.routes import LIST_EVENTS
from service.schemas.compiled import compile_encoder
from service.schemas.limits import DEFAULT_PER_PAGE
from service.schemas.responses import EventPageAnswer, Rows
from service.streaming.rows import Cell, RowFormat

LIST: Final = ListEndpoint(LIST_EVENTS, EVENT_KEYS)

# As in an event; the last is JSON text.
_COLUMNS: Final = (
    "id",
    "received_at",
    "trigger",
    "repository",
    "pull_request",
    "base_ref",
    "type",
    "metadata",
)

_encode_page: Final = compile_encoder(EventPageAnswer)


async def list_events(request: web.Request) -> web.StreamResponse:
    """GET /v1/repos/{owner}/{repository}/logs."""
    opened = open_list(request, LIST)
    context, parameters = opened.context, opened.parameters
    window = opened.position.window or choose_window(
        parameters["received_from"], parameters["received_to"], context.clock()
    )
    query = make_query(opened.repository, parameters, window)
    media_type = find_row_format(request)
    if media_type is not None:
        read = partial(context.reader.list_events, query)
        headers = headers_of(ignored=opened.query.ignored, negotiated=True)
        rows = RowStream(read, _key_of, _ROWS)
        return await stream_rows(request, opened.query, media_type, headers, rows)
    per_page = parameters["per_page"] or DEFAULT_PER_PAGE
    page = await context.reader.list_events(query, opened.anchor, per_page)
    ends = pack_ends(page, _key_of, EVENT_KEYS)
    headers = headers_of(opened.links(ends, window), ignored=opened.query.ignored, negotiated=True)
    body = _encode_page(Rows([row.body for row in page.rows], len(page.rows), per_page))
    return respond_whole(request, headers, body)


def _key_of(row: EventRow) -> EventKey:
    return row.key


def _body_of(row: EventRow) -> bytes:
    return row.body


def _cells_of(row: EventRow) -> list[Cell]:
    event = orjson.loads(row.body)
    metadata = orjson.dumps(event["metadata"]).decode()
    return [*(event[column] for column in _COLUMNS[:-1]), metadata]


_ROWS: Final = RowFormat(_COLUMNS, _body_of, _cells_of)
