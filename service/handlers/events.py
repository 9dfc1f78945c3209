"""The event log: stored JSON text, joined to a page."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from indexing.events.json_text import decode_stored, encode
from indexing.models.events import EventRow
from service.context import READER
from service.handlers.event_query import choose_received_range, make_query
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.handlers.row_stream import stream_rows
from service.middleware.response_cache import find_row_format, respond, respond_uncached
from service.pagination.sort_keys import EVENT_KEYS
from service.routes import LIST_EVENTS
from service.streaming.rows import Cell, RowFormat

LIST: Final = ListEndpoint(LIST_EVENTS, EVENT_KEYS)

# The members of an event; the last column is JSON text.
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


async def list_events(request: web.Request) -> web.StreamResponse:
    """GET /v1/repos/{owner}/{repository}/logs."""
    opened = open_list(request, LIST)
    context, parameters = opened.context, opened.parameters
    now = context.clock()
    bounds = (parameters["received_from"], parameters["received_to"])
    time_range = opened.position.time_range
    if time_range is None:
        time_range = choose_received_range(*bounds, now)
    else:
        # The range of the walk, whatever the time: its first page is not that of a new request.
        bounds = (time_range.start, time_range.end)
    query = make_query(opened.repository, parameters, time_range)
    media_type = find_row_format(request)
    if media_type is not None:
        read = partial(context.reader.list_events, query)
        return await stream_rows(
            request, opened.query, LIST.route.operation, media_type, read, _ROWS
        )
    reader, ignored = request[READER], opened.query.ignored
    answer = await reader.list_events(query, bounds, opened.anchor, opened.per_page, now)
    if opened.position.time_range is not None:
        links = opened.links(answer.ends, time_range)
        return respond_uncached(request, answer, links, ignored=ignored, negotiated=True)
    ends = answer.ends
    links = opened.links(ends, choose_received_range(*bounds, answer.since or now))
    # Without the links: their cursors contain the time range, which changes even if the page does
    # not.
    tagged = (f"previous {ends.has_previous}", f"next {ends.has_next}")
    return respond(request, answer, links, ignored=ignored, negotiated=True, tagged=tagged)


def _body_of(row: EventRow) -> bytes:
    return row.body


def _cells_of(row: EventRow) -> list[Cell]:
    event = decode_stored(row.body)
    metadata = encode(event["metadata"]).decode()
    return [*(event[column] for column in _COLUMNS[:-1]), metadata]


_ROWS: Final = RowFormat(_COLUMNS, _body_of, _cells_of)
