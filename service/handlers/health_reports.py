"""Why one test is healthy, flaky or broken."""

from __future__ import annotations

import uuid
from typing import Final

from aiohttp import web

from service.cache.answers import make_answer
from service.context import CONTEXT, REPOSITORY
from service.handlers.without_parameters import find_ignored
from service.http import problems
from service.http.path_params import TEST_ID
from service.middleware.response_cache import respond_uncached
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import HealthReportAnswer

_encode: Final = compile_encoder(HealthReportAnswer)


async def get_health(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/health."""
    test_id = uuid.UUID(request.match_info[TEST_ID.name])
    found = await request.app[CONTEXT].reader.get_health(request[REPOSITORY], test_id)
    if found is None:
        raise problems.not_found("test")
    return respond_uncached(request, make_answer(_encode(found)), ignored=find_ignored(request))
