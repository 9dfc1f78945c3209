"""The event log: stored JSON text, joined to a page."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from indexing.models.events import EventKey, EventRow
from service.handlers.event_query import choose_window, make_query
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.http.raw_response import respond_whole
from service.middleware.response_cache import headers_of
from service.pagination.sort_keys import EVENT_KEYS, pack_ends
from service.routes import LIST_EVENTS
from service.schemas.compiled import compile_encoder
from service.schemas.limits import DEFAULT_PER_PAGE
from service.schemas.responses import EventPageAnswer, Rows

LIST: Final = ListEndpoint(LIST_EVENTS, EVENT_KEYS)

_encode_page: Final = compile_encoder(EventPageAnswer)


async def list_events(request: web.Request) -> web.StreamResponse:
    """GET /v1/repos/{owner}/{repository}/logs."""
    opened = open_list(request, LIST)
    context, parameters = opened.context, opened.parameters
    window = opened.position.window or choose_window(
        parameters["received_from"], parameters["received_to"], context.clock()
    )
    per_page = parameters["per_page"] or DEFAULT_PER_PAGE
    page = await context.reader.list_events(
        make_query(opened.repository, parameters, window), opened.anchor, per_page
    )
    ends = pack_ends(page, _key_of, EVENT_KEYS)
    headers = headers_of(opened.links(ends, window), ignored=opened.query.ignored)
    body = _encode_page(Rows([row.body for row in page.rows], len(page.rows), per_page))
    return respond_whole(request, headers, body)


def _key_of(row: EventRow) -> EventKey:
    return row.key
