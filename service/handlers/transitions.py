"""The changes of health of all tests, or of one test."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from indexing.models.tests import HealthStatus
from indexing.models.transitions import TransitionQuery
from service.cache.answers import canonical_page, filters_of, make_answer
from service.context import CONTEXT, READER, REPOSITORY
from service.handlers.list_endpoint import ListEndpoint, open_list, read_page
from service.handlers.parameters import find_ignored
from service.handlers.time_range import choose_range, find_range_errors
from service.http import problems
from service.http.path_params import TEST_ID, read_id
from service.middleware.response_cache import respond, respond_uncached
from service.pagination.sort_keys import TRANSITION_KEYS
from service.routes import LIST_TRANSITIONS
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import TestTransitionsAnswer, TransitionPageAnswer

TRANSITIONS: Final = ListEndpoint(LIST_TRANSITIONS, TRANSITION_KEYS)

_encode_page: Final = compile_encoder(TransitionPageAnswer)
_encode_test: Final = compile_encoder(TestTransitionsAnswer)
_filters: Final = filters_of(TransitionQuery)


async def list_transitions(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/health-transitions."""
    now = request.app[CONTEXT].clock()
    opened = open_list(request, TRANSITIONS, partial(find_range_errors, now=now))
    parameters = opened.parameters
    time_range = opened.position.time_range or choose_range(parameters, now)
    query = TransitionQuery(
        opened.repository,
        time_range.start,
        time_range.end,
        tuple(map(HealthStatus, parameters["health_status"])),
    )
    read = partial(opened.context.reader.list_transitions, query)
    canonical = canonical_page(
        # Figures by day have keys of the same kind.
        ("transitions", *_filters(query)),
        opened.anchor,
        opened.per_page,
        TRANSITION_KEYS.pack,
    )
    answer = await request[READER].find_trend(
        opened.repository, canonical, partial(read_page, opened, read, _encode_page)
    )
    links = opened.links(answer.ends, time_range)
    return respond(request, answer, links, ignored=opened.query.ignored)


async def list_of_test(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/health-transitions."""
    test_id = read_id(request.match_info, TEST_ID)
    reader = request.app[CONTEXT].reader
    found = await reader.list_transitions_of_test(request[REPOSITORY], test_id)
    if found is None:
        raise problems.not_found("test")
    answer = make_answer(_encode_test(found))
    return respond_uncached(request, answer, ignored=find_ignored(request))
