"""The event log: stored JSON text, joined to a page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from indexing.models.events import EventKey, EventQuery, EventRow, Outcome
from indexing.names import RepositoryName
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.http.raw_response import respond_whole
from service.middleware.response_cache import headers_of
from service.pagination.cursor import Window
from service.pagination.sort_keys import EVENT_KEYS, pack_ends
from service.routes import LIST_EVENTS
from service.schemas.compiled import compile_encoder
from service.schemas.limits import DEFAULT_PER_PAGE
from service.schemas.responses import EventPageAnswer, Rows

LIST: Final = ListEndpoint(LIST_EVENTS, EVENT_KEYS)

DEFAULT_RANGE: Final = timedelta(days=1)
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)

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


def choose_window(start: datetime | None, end: datetime | None, now: datetime) -> Window:
    """The range of the log that is asked for; what is not given is filled in."""
    if end is None:
        # A range that begins in the future alone is an empty one.
        end = now if start is None else max(now, start)
    if start is None:
        start = end - DEFAULT_RANGE if end - _BEGINNING >= DEFAULT_RANGE else _BEGINNING
    return Window(start, end)


def make_query(
    repository: RepositoryName, parameters: Mapping[str, Any], window: Window
) -> EventQuery:
    """The store's query of checked parameters."""
    return EventQuery(
        repository=repository,
        received_from=window.received_from,
        received_to=window.received_to,
        pull_requests=parameters["pull_request"],
        base_ref=parameters["base_ref"],
        event_types=parameters["event_type"],
        triggers=parameters["trigger"],
        outcomes=tuple(map(Outcome, parameters["outcome"])),
        event_types_excluded=parameters["not_event_type"],
        triggers_excluded=parameters["not_trigger"],
        outcomes_excluded=tuple(map(Outcome, parameters["not_outcome"])),
        pull_requests_excluded=parameters["not_pull_request"],
    )


def _key_of(row: EventRow) -> EventKey:
    return row.key
