"""Series of a repository by UTC day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web

from indexing.health.window import day_of
from indexing.models.trends import DayQuery, Stat, TestStat
from indexing.names import RepositoryName
from indexing.store.series import OF_EXECUTIONS, read_series, read_test_series
from indexing.timestamps import MICROSECOND
from service.cache.answers import Answer, filters_of, make_answer
from service.context import CONTEXT, READER, REPOSITORY
from service.handlers.parameters import read_parameters
from service.handlers.time_range import choose_range, find_range_errors
from service.http import problems
from service.http.field_errors import FieldError
from service.http.path_params import STAT, TEST_ID, TEST_STAT, read_id
from service.middleware.response_cache import respond
from service.routes import GET_STATS, GET_TEST_STATS
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import SeriesAnswer, TestSeriesAnswer

_encode: Final = compile_encoder(SeriesAnswer)
_encode_test: Final = compile_encoder(TestSeriesAnswer)
_filters: Final = filters_of(DayQuery)


async def get_stats(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/stats/{stat}."""
    stat = Stat(request.match_info[STAT.name])
    now = request.app[CONTEXT].clock()

    def find_errors(parameters: Mapping[str, Any]) -> list[FieldError]:
        found = [] if stat in OF_EXECUTIONS else _find_filters(parameters)
        return found + find_range_errors(parameters, now)

    parameters, ignored = read_parameters(request, GET_STATS, find_errors)
    query = make_day_query(request[REPOSITORY], parameters, now)

    async def read() -> Answer:
        reader, cached = request.app[CONTEXT].reader, request[READER]
        series = await read_series(reader, cached.count_health, stat, query, now)
        return make_answer(_encode(series))

    canonical = orjson.dumps([stat, *_filters(query)])
    answer = await request[READER].find_trend(query.repository, canonical, read)
    return respond(request, answer, ignored=ignored)


async def get_test_stats(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/stats/{stat}."""
    context = request.app[CONTEXT]
    now = context.clock()
    parameters, ignored = read_parameters(
        request, GET_TEST_STATS, partial(find_range_errors, now=now)
    )
    stat = TestStat(request.match_info[TEST_STAT.name])
    test_id = read_id(request.match_info, TEST_ID)
    query = make_day_query(request[REPOSITORY], parameters, now)

    async def read() -> Answer:
        series = await read_test_series(context.reader, stat, query, test_id)
        if series is None:
            raise problems.not_found("test")
        return make_answer(_encode_test(series))

    canonical = orjson.dumps([stat, test_id, *_filters(query)])
    answer = await request[READER].find_trend(query.repository, canonical, read)
    return respond(request, answer, ignored=ignored)


def make_day_query(
    repository: RepositoryName, parameters: Mapping[str, Any], now: datetime
) -> DayQuery:
    """Return a query of the UTC days that the range of the parameters touches."""
    time_range = choose_range(parameters, now)
    first_day = day_of(time_range.start)
    is_empty = time_range.start == time_range.end
    last_day = first_day - 1 if is_empty else day_of(time_range.end - MICROSECOND)
    return DayQuery(
        repository, first_day, last_day, parameters["pipeline_name"], parameters["job_name"]
    )


def _find_filters(parameters: Mapping[str, Any]) -> list[FieldError]:
    """Return an error for each filter that a series of tests does not have."""
    detail = "is not for this series: it counts tests, whatever jobs they run in"
    return [
        FieldError("query", name, detail)
        for name in ("job_name", "pipeline_name")
        if parameters.get(name)
    ]
