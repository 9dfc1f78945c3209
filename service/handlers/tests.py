"""The test search and the detail of one test."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web

from indexing.models.tests import HealthStatus, TestIdentity, TestQuery, TestSort
from indexing.names import RepositoryName
from service.context import READER, REPOSITORY
from service.handlers.code_owners import with_files
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.handlers.parameters import find_ignored
from service.handlers.row_stream import stream_rows
from service.http import problems
from service.http.path_params import TEST_ID, read_id
from service.http.query_string import INCLUDE_FIELD
from service.middleware.response_cache import find_row_format, respond
from service.pagination.sort_keys import IDENTITY_KEYS
from service.routes import SEARCH_TESTS
from service.schemas.compiled import compile_encoder
from service.schemas.queries import METRICS, TOTAL
from service.schemas.responses import TestIdentityAnswer, TestMetricsAnswer
from service.streaming.rows import Cell, RowFormat

SEARCH: Final = ListEndpoint(SEARCH_TESTS, IDENTITY_KEYS)


async def search_tests(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository_name}/search/tests."""
    opened = open_list(request, SEARCH)
    query = make_query(opened.repository, opened.parameters, opened.context.clock())
    media_type = find_row_format(request)
    if media_type is not None:
        query = await with_files(request, query)
        read = partial(opened.context.reader.search_tests, query)
        rows = _ROWS_WITH_METRICS if query.with_metrics else _ROWS
        return await stream_rows(
            request, opened.query, SEARCH.route.operation, media_type, read, rows
        )
    answer = await request[READER].search_tests(
        query,
        opened.anchor,
        opened.per_page,
        with_total=TOTAL in opened.parameters.get(INCLUDE_FIELD, ()),
        complete=partial(with_files, request) if query.owners else None,
    )
    links = opened.links(answer.ends)
    return respond(request, answer, links, ignored=opened.query.ignored, negotiated=True)


async def get_test(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository_name}/tests/{test_id}."""
    test_id = read_id(request.match_info, TEST_ID)
    answer = await request[READER].get_test(request[REPOSITORY], test_id)
    if answer is None:
        raise problems.not_found("test")
    return respond(request, answer, ignored=find_ignored(request))


def make_query(
    repository: RepositoryName, parameters: Mapping[str, Any], now: datetime
) -> TestQuery:
    """Return the store's query for checked parameters."""
    return TestQuery(
        repository=repository,
        patterns=parameters["test_name"],
        sort=TestSort(parameters["sort"]),
        descending=parameters["direction"] == "desc",
        pipelines=parameters["pipeline_name"],
        pipelines_excluded=parameters["pipeline_name_exclude"],
        jobs=parameters["job_name"],
        jobs_excluded=parameters["job_name_exclude"],
        patterns_excluded=parameters.get("test_name_exclude", ()),
        filepaths=parameters.get("test_filepath", ()),
        quarantined=parameters.get("quarantined"),
        owners=parameters.get("owner", ()),
        health=_find_statuses(parameters),
        with_metrics=METRICS in parameters.get(INCLUDE_FIELD, ()),
        now=now,
    )


def _find_statuses(parameters: Mapping[str, Any]) -> tuple[HealthStatus, ...] | None:
    """Return the included health statuses without the excluded ones; `None` for no filter."""
    included = parameters.get("health_status", ())
    excluded = parameters.get("health_status_exclude", ())
    if not (included or excluded):
        return None
    return tuple(
        status
        for status in HealthStatus
        if (not included or status in included) and status not in excluded
    )


def _cells_with_metrics(row: TestIdentity) -> list[Cell]:
    values = orjson.loads(_encode_row_with_metrics(row))
    values |= values["metrics"]
    values["latest_verdicts"] = " ".join(values["latest_verdicts"])
    return [values[column] for column in _COLUMNS_WITH_METRICS]


_ROWS: Final[RowFormat[TestIdentity]] = RowFormat.of(TestIdentityAnswer, without=("metrics",))
_encode_row_with_metrics: Final = compile_encoder(TestIdentityAnswer)
_COLUMNS_WITH_METRICS: Final = (*_ROWS.columns, *TestMetricsAnswer().fields)
_ROWS_WITH_METRICS: Final = RowFormat(
    _COLUMNS_WITH_METRICS, _encode_row_with_metrics, _cells_with_metrics
)
