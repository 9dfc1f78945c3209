"""The test search and the detail of one test."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from indexing.models.tests import TestQuery, TestSort
from indexing.names import RepositoryName
from service.context import READER, REPOSITORY
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.handlers.without_parameters import find_ignored
from service.http import problems
from service.http.path_params import TEST_ID
from service.middleware.response_cache import respond
from service.pagination.sort_keys import IDENTITY_KEYS
from service.routes import SEARCH_TESTS
from service.schemas.limits import DEFAULT_PER_PAGE

SEARCH: Final = ListEndpoint(SEARCH_TESTS, IDENTITY_KEYS)


async def search_tests(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository_name}/search/tests."""
    opened = open_list(request, SEARCH)
    query = make_query(opened.repository, opened.parameters)
    limit = opened.parameters["per_page"] or DEFAULT_PER_PAGE
    answer = await request[READER].search_tests(query, opened.anchor, limit)
    return respond(request, answer, opened.links(answer.ends), ignored=opened.query.ignored)


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
