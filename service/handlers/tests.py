"""The test search and the detail of one test."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from indexing.models.tests import TestQuery, TestSort
from indexing.names import RepositoryName
from service.cache import reader as cached_reader
from service.cache.keys import key_of_test
from service.handlers.admission import admit
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.handlers.respond import find_ignored, respond
from service.http import problems
from service.http.path_params import TEST_ID
from service.pagination.sort_keys import IDENTITY_KEYS
from service.routes import GET_TEST, SEARCH_TESTS
from service.schemas.limits import DEFAULT_PER_PAGE

SEARCH: Final = ListEndpoint(SEARCH_TESTS, IDENTITY_KEYS)


async def search_tests(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository_name}/search/tests."""
    opened = await open_list(request, SEARCH)
    context, repository, parameters = opened.context, opened.repository, opened.parameters
    answer = await cached_reader.search_tests(
        opened.admission.session,
        context.reader,
        make_query(repository, parameters),
        opened.position,
        parameters["per_page"] or DEFAULT_PER_PAGE,
    )
    link = opened.links(answer.ends)
    return respond(request, opened.admission, answer, link, ignored=opened.query.ignored)


async def get_test(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository_name}/tests/{test_id}."""
    admission = await admit(
        request,
        GET_TEST,
        lambda repository: key_of_test(repository, _id_of(request)),
    )
    answer = await cached_reader.get_test(
        admission.session, admission.context.reader, admission.repository, _id_of(request)
    )
    if answer is None:
        raise problems.not_found("test")
    return respond(request, admission, answer, ignored=find_ignored(request))


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


def _id_of(request: web.Request) -> uuid.UUID:
    return uuid.UUID(request.match_info[TEST_ID.name])
