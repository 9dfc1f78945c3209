"""The test search and the detail of one test."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from aiohttp import web

from indexing.models.tests import IdentityKey, TestIdentity, TestQuery, TestSort
from indexing.names import RepositoryName
from service.context import READER, REPOSITORY
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.handlers.row_stream import RowStream, stream_rows
from service.handlers.without_parameters import find_ignored
from service.http import problems
from service.http.path_params import TEST_ID
from service.middleware.response_cache import find_row_format, headers_of, respond
from service.pagination.sort_keys import IDENTITY_KEYS
from service.routes import SEARCH_TESTS
from service.schemas.compiled import compile_encoder
from service.schemas.limits import DEFAULT_PER_PAGE
from service.schemas.responses import TestIdentityAnswer
from service.streaming.rows import RowFormat

SEARCH: Final = ListEndpoint(SEARCH_TESTS, IDENTITY_KEYS)


async def search_tests(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository_name}/search/tests."""
    opened = open_list(request, SEARCH)
    query = make_query(opened.repository, opened.parameters)
    media_type = find_row_format(request)
    if media_type is not None:
        read = partial(opened.context.reader.search_tests, query)
        headers = headers_of(ignored=opened.query.ignored, negotiated=True)
        rows = RowStream(read, _key_of, _ROWS)
        return await stream_rows(request, opened.query, media_type, headers, rows)
    limit = opened.parameters["per_page"] or DEFAULT_PER_PAGE
    answer = await request[READER].search_tests(query, opened.anchor, limit)
    links = opened.links(answer.ends)
    return respond(request, answer, links, ignored=opened.query.ignored, negotiated=True)


async def get_test(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository_name}/tests/{test_id}."""
    test_id = uuid.UUID(request.match_info[TEST_ID.name])
    answer = await request[READER].get_test(request[REPOSITORY], test_id)
    if answer is None:
        raise problems.not_found("test")
    return respond(request, answer, ignored=find_ignored(request))


def make_query(repository: RepositoryName, parameters: Mapping[str, Any]) -> TestQuery:
    """The store's query of checked parameters."""
    return TestQuery(
        repository=repository,
        patterns=parameters["test_name"],
        sort=TestSort(parameters["sort"]),
        descending=parameters["direction"] == "desc",
        pipelines=parameters["pipeline_name"],
        pipelines_excluded=parameters["pipeline_name_exclude"],
        jobs=parameters["job_name"],
        jobs_excluded=parameters["job_name_exclude"],
    )


def _key_of(row: TestIdentity) -> IdentityKey:
    return row.key


def _cells_of(row: TestIdentity) -> list[str]:
    key = row.key
    return [str(row.test_id), key.test_name, key.pipeline_name, key.job_name]


_ROWS: Final = RowFormat(
    ("test_id", "test_name", "pipeline_name", "job_name"),
    compile_encoder(TestIdentityAnswer),
    _cells_of,
)
