"""The test search and the detail of one test."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

import orjson
from aiohttp import web

from indexing.models.paging import Anchor
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service import pagination, problems
from service.auth import Operation
from service.context import CONTEXT, admit
from service.listing import Listing, open_list
from service.paths import OWNER, REPOSITORY_NAME, TEST_ID
from service.positions import IDENTITY_KEYS, IdentityPlace, IdentityReference, place_identity
from service.schemas.queries import DEFAULT_PER_PAGE, TestsQuery
from service.schemas.responses import TestDetailAnswer, TestPageAnswer

DETAIL_PATH: Final = (OWNER, REPOSITORY_NAME, TEST_ID)
SEARCH: Final = Listing(Operation.SEARCH, (OWNER, REPOSITORY_NAME), TestsQuery(), IDENTITY_KEYS)

_PAGE: Final = TestPageAnswer()
_DETAIL: Final = TestDetailAnswer()


async def search_tests(request: web.Request) -> web.Response:
    """GET /v1/ci/{owner}/repositories/{repository_name}/search/tests."""
    opened = await open_list(request, SEARCH)
    context, repository, asked = opened.context, opened.repository, opened.asked
    position = opened.position
    key = await _find_key(context.reader, repository, position.key)
    per_page = asked["per_page"] or DEFAULT_PER_PAGE
    page = await context.reader.search_tests(
        make_query(repository, asked), Anchor(key, position.backward), per_page
    )
    link = pagination.links(request, context.public_url, opened.walk, page, _place_of)
    body = _PAGE.dump({"size": len(page.rows), "per_page": per_page, "tests": page.rows})
    return web.Response(body=orjson.dumps(body), content_type="application/json", headers=link)


async def get_test(request: web.Request) -> web.Response:
    """GET /v1/ci/{owner}/repositories/{repository_name}/tests/{test_id}."""
    reader = request.app[CONTEXT].reader
    repository = (await admit(request, Operation.TEST, DETAIL_PATH)).name
    detail = await reader.get_test(repository, uuid.UUID(request.match_info[TEST_ID.name]))
    if detail is None:
        raise problems.not_found("test")
    return web.Response(body=orjson.dumps(_DETAIL.dump(detail)), content_type="application/json")


def make_query(repository: RepositoryName, asked: Mapping[str, Any]) -> TestQuery:
    """The store's query of checked parameters."""
    return TestQuery(
        repository=repository,
        patterns=asked["test_name"],
        sort=TestSort(asked["sort"]),
        descending=asked["direction"] == "desc",
        pipelines=asked["pipeline_name"],
        pipelines_excluded=asked["pipeline_name_exclude"],
        jobs=asked["job_name"],
        jobs_excluded=asked["job_name_exclude"],
    )


async def _find_key(
    reader: Reader, repository: RepositoryName, place: IdentityPlace | None
) -> IdentityKey | None:
    if not isinstance(place, IdentityReference):
        return place
    found = await reader.find_identity(repository, place.identity_id)
    if found is None:
        raise problems.stale_cursor()
    # The count as it was: the walk goes on from where it stood, not from where the row is now.
    return IdentityKey(place.executions_count, found.test_name, found.pipeline_name, found.job_name)


def _place_of(row: TestIdentity) -> IdentityPlace:
    return place_identity(row.key, row.identity_id)
