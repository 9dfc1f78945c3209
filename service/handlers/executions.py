"""The executions of one test."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from indexing.models.executions import Conclusion
from indexing.models.listed_executions import ExecutionQuery, ListedExecution
from service.context import CONTEXT
from service.handlers.list_endpoint import ListEndpoint, open_list, read_page, read_present
from service.handlers.row_stream import stream_rows
from service.handlers.time_range import choose_range, find_range_errors
from service.http.path_params import TEST_ID, read_id
from service.middleware.response_cache import find_row_format, respond_uncached
from service.pagination.sort_keys import EXECUTION_KEYS
from service.routes import LIST_EXECUTIONS
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import ExecutionAnswer, ExecutionPageAnswer
from service.streaming.rows import RowFormat

EXECUTIONS: Final = ListEndpoint(LIST_EXECUTIONS, EXECUTION_KEYS)

_encode: Final = compile_encoder(ExecutionPageAnswer)
_ROWS: Final[RowFormat[ListedExecution]] = RowFormat.of(ExecutionAnswer)


async def list_executions(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/{test_id}/executions."""
    now = request.app[CONTEXT].clock()
    opened = open_list(request, EXECUTIONS, partial(find_range_errors, now=now))
    parameters = opened.parameters
    time_range = opened.position.time_range or choose_range(parameters, now)
    query = ExecutionQuery(
        repository=opened.repository,
        test_id=read_id(request.match_info, TEST_ID),
        start=time_range.start,
        end=time_range.end,
        branches=parameters["branch"],
        commits=parameters["commit"],
        pipelines=parameters["pipeline_name"],
        jobs=parameters["job_name"],
        conclusions=tuple(map(Conclusion, parameters["conclusion"])),
    )

    read = partial(opened.context.reader.list_executions, query)
    media_type = find_row_format(request)
    if media_type is not None:
        return await stream_rows(
            request, opened.query, EXECUTIONS.route.operation, media_type, read_present(read), _ROWS
        )
    answer = await read_page(opened, read, _encode)
    links = opened.links(answer.ends, time_range)
    return respond_uncached(request, answer, links, ignored=opened.query.ignored, negotiated=True)
