"""Why one test is healthy, flaky or broken, and who owns its file."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from indexing.models.health_reports import HealthReport
from service.cache.answers import make_answer
from service.context import CONTEXT, REPOSITORY
from service.handlers.code_owners import OwnerSearch
from service.handlers.parameters import read_parameters
from service.http import problems
from service.http.path_params import TEST_ID, read_id
from service.http.query_string import INCLUDE_FIELD
from service.middleware.response_cache import respond_uncached
from service.routes import GET_TEST_HEALTH
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import HealthReportAnswer
from service.schemas.queries import OWNERS

_encode: Final = compile_encoder(HealthReportAnswer, without=(OWNERS,))
_encode_with_owners: Final = compile_encoder(HealthReportAnswer)


@dataclass(frozen=True, slots=True)
class _OwnedReport(HealthReport):
    owners: Sequence[str]


async def get_health(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/health."""
    parameters, ignored = read_parameters(request, GET_TEST_HEALTH)
    test_id = read_id(request.match_info, TEST_ID)
    read = _read_with_owners if OWNERS in parameters.get(INCLUDE_FIELD, ()) else _read
    body = await read(request, test_id)
    if body is None:
        raise problems.not_found("test")
    return respond_uncached(request, make_answer(body), ignored=ignored)


async def _read(request: web.Request, test_id: uuid.UUID) -> bytes | None:
    found = await request.app[CONTEXT].reader.get_health(request[REPOSITORY], test_id)
    return None if found is None else _encode(found)


async def _read_with_owners(request: web.Request, test_id: uuid.UUID) -> bytes | None:
    reader, repository = request.app[CONTEXT].reader, request[REPOSITORY]
    found, test = await asyncio.gather(
        reader.get_health(repository, test_id), reader.get_test(repository, test_id)
    )
    if found is None or test is None:
        return None
    owners: Sequence[str] = ()
    if test.metadata.filepath is not None:
        owners = await OwnerSearch(request, repository).find_owners(test.metadata.filepath)
    return _encode_with_owners(
        _OwnedReport(found.health_status, found.jobs, found.jobs_count, owners)
    )
