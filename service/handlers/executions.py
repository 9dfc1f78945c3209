"""The executions of one test."""

from __future__ import annotations

import uuid
from typing import Final

from aiohttp import web

from indexing.models.executions import Conclusion
from indexing.models.listed_executions import ExecutionKey, ExecutionQuery, ListedExecution
from indexing.models.paging import Anchor, Page
from service.handlers.list_endpoint import ListEndpoint, open_list, read_page
from service.handlers.time_range import choose_range
from service.http.path_params import TEST_ID
from service.middleware.response_cache import respond_uncached
from service.pagination.insight_keys import EXECUTION_KEYS
from service.routes import LIST_EXECUTIONS
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import ExecutionPageAnswer

EXECUTIONS: Final = ListEndpoint(LIST_EXECUTIONS, EXECUTION_KEYS)

_encode: Final = compile_encoder(ExecutionPageAnswer)


async def list_executions(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/executions."""
    opened = open_list(request, EXECUTIONS)
    parameters, reader = opened.parameters, opened.context.reader
    window = opened.position.window or choose_range(parameters, opened.context.clock())
    query = ExecutionQuery(
        repository=opened.repository,
        test_id=uuid.UUID(request.match_info[TEST_ID.name]),
        start=window.received_from,
        end=window.received_to,
        branches=parameters["branch"],
        commits=parameters["commit"],
        pipelines=parameters["pipeline_name"],
        jobs=parameters["job_name"],
        conclusions=tuple(map(Conclusion, parameters["conclusion"])),
    )

    async def read(anchor: Anchor[ExecutionKey], limit: int) -> Page[ListedExecution] | None:
        return await reader.list_executions(query, anchor, limit)

    answer = await read_page(opened, EXECUTIONS, read, _key_of, _encode)
    links = opened.links(answer.ends, window)
    return respond_uncached(request, answer, links, ignored=opened.query.ignored)


def _key_of(row: ListedExecution) -> ExecutionKey:
    return row.key
