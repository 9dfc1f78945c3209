"""The failures of one test, one for each kind of error, and a failure with its newest events."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from indexing.models.failures import FailureQuery
from service.cache.answers import make_answer
from service.context import CONTEXT, REPOSITORY
from service.handlers.list_endpoint import ListEndpoint, open_list, read_page
from service.handlers.parameters import find_ignored
from service.http import problems
from service.http.path_params import FAILURE_ID, TEST_ID, read_id
from service.middleware.response_cache import respond_uncached
from service.pagination.sort_keys import FAILURE_KEYS
from service.routes import LIST_FAILURES
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import FailureDetailAnswer, FailurePageAnswer

FAILURES: Final = ListEndpoint(LIST_FAILURES, FAILURE_KEYS)

# A stack trace has at most 32 KiB, so a response stays below half a mebibyte.
LATEST_EVENTS: Final = 10

_encode_page: Final = compile_encoder(FailurePageAnswer)
_encode_detail: Final = compile_encoder(FailureDetailAnswer)


async def list_failures(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/failures."""
    opened = open_list(request, FAILURES)
    query = FailureQuery(
        opened.repository, read_id(request.match_info, TEST_ID), opened.parameters["branch"]
    )
    read = partial(opened.context.reader.list_failures, query)
    answer = await read_page(opened, read, _encode_page)
    links = opened.links(answer.ends)
    return respond_uncached(request, answer, links, ignored=opened.query.ignored)


async def get_failure(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/failures/{failure_id}."""
    context, repository = request.app[CONTEXT], request[REPOSITORY]
    query = FailureQuery(repository, read_id(request.match_info, TEST_ID))
    failure_id = read_id(request.match_info, FAILURE_ID)
    found = await context.reader.get_failure(query, failure_id, LATEST_EVENTS)
    if found is None:
        raise problems.not_found("failure")
    answer = make_answer(_encode_detail(found))
    return respond_uncached(request, answer, ignored=find_ignored(request))
