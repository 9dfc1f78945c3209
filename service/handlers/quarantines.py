"""The list of quarantined tests, the same as plugins read it, and one of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from indexing.identifiers import derive_test_id
from indexing.models.quarantines import QuarantineQuery, QuarantineSource
from indexing.names import RepositoryName
from service.cache.keys import Kind
from service.context import CONTEXT, READER, REPOSITORY
from service.handlers.list_endpoint import ListEndpoint, open_list
from service.handlers.parameters import find_ignored
from service.http import problems
from service.http.path_params import QUARANTINE_ID, read_id
from service.http.query_string import INCLUDE_FIELD
from service.middleware.response_cache import respond
from service.pagination.sort_keys import QUARANTINE_KEYS
from service.routes import LIST_QUARANTINES, LIST_TEST_STATES
from service.schemas.queries import DETAILS

LIST: Final = ListEndpoint(LIST_QUARANTINES, QUARANTINE_KEYS)
STATES: Final = ListEndpoint(LIST_TEST_STATES, QUARANTINE_KEYS)


async def list_quarantines(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/quarantines.

    The whole list without links, unless the request has `per_page`, `cursor` or `include`.
    """
    opened = open_list(request, LIST)
    parameters = opened.parameters
    with_details = DETAILS in parameters.get(INCLUDE_FIELD, ())
    is_paged = parameters["per_page"] or parameters["cursor"] or with_details
    limit = opened.per_page if is_paged else None
    query = make_query(opened.repository, parameters, opened.context.clock())
    kind = Kind.QUARANTINE_DETAILS if with_details else Kind.QUARANTINES
    answer = await request[READER].list_quarantines(query, opened.anchor, limit, kind)
    links = () if limit is None else opened.links(answer.ends)
    return respond(request, answer, links, ignored=opened.query.ignored)


async def list_test_states(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/test-states.

    Quarantines cover all pipelines and jobs, so `pipeline_name` and `job_name` have no effect.
    """
    opened = open_list(request, STATES)
    name = opened.parameters["test_name"]
    query = QuarantineQuery(
        repository=opened.repository,
        now=opened.context.clock(),
        branch=opened.parameters["branch_name"],
        test_id=None if name is None else derive_test_id(opened.repository, name),
    )
    answer = await request[READER].list_quarantines(
        query, opened.anchor, opened.per_page, Kind.TEST_STATES
    )
    return respond(request, answer, opened.links(answer.ends), ignored=opened.query.ignored)


async def get_quarantine(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/quarantines/{quarantine_id}."""
    quarantine_id = read_id(request.match_info, QUARANTINE_ID)
    now = request.app[CONTEXT].clock()
    answer = await request[READER].get_quarantine(request[REPOSITORY], quarantine_id, now)
    if answer is None:
        raise problems.not_found("quarantine")
    return respond(request, answer, ignored=find_ignored(request))


def make_query(
    repository: RepositoryName, parameters: Mapping[str, Any], now: datetime
) -> QuarantineQuery:
    """Return the store's query for checked parameters."""
    source = parameters["source"]
    return QuarantineQuery(
        repository=repository,
        now=now,
        branch=parameters["branch"],
        test_id=parameters["test_id"],
        source=None if source is None else QuarantineSource(source),
    )
