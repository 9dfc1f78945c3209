"""The runs of CI jobs whose results are stored."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from indexing.models.listed_runs import RunQuery
from service.handlers.list_endpoint import ListEndpoint, open_list, read_page
from service.middleware.response_cache import respond_uncached
from service.pagination.sort_keys import RUN_KEYS
from service.routes import LIST_RUNS
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import RunPageAnswer

RUNS: Final = ListEndpoint(LIST_RUNS, RUN_KEYS)

_encode: Final = compile_encoder(RunPageAnswer)


async def list_runs(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/runs."""
    opened = open_list(request, RUNS)
    parameters = opened.parameters
    query = RunQuery(
        repository=opened.repository,
        commits=parameters["commit"],
        branches=parameters["branch"],
        pull_numbers=parameters["pull_request"],
        pipelines=parameters["pipeline_name"],
        jobs=parameters["job_name"],
    )
    answer = await read_page(opened, partial(opened.context.reader.list_runs, query), _encode)
    links = opened.links(answer.ends)
    return respond_uncached(request, answer, links, ignored=opened.query.ignored)
