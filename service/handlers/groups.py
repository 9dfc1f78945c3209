"""Groups of tests: which pipelines, jobs and directories are the worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from indexing.models.groups import MOST_GROUPS, Grouping, TestGroup
from service.cache.answers import Answer, make_answer
from service.context import CONTEXT, READER, REPOSITORY
from service.handlers.parameters import read_parameters
from service.middleware.response_cache import respond
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import TestGroupsAnswer
from service.schemas.insight_queries import GroupsQuery

_QUERY: Final = GroupsQuery()
_encode: Final = compile_encoder(TestGroupsAnswer)


@dataclass(frozen=True, slots=True)
class _Groups:
    groups: tuple[TestGroup, ...]


async def group_tests(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/groups."""
    parameters, ignored = read_parameters(request, _QUERY)
    by, repository = Grouping(parameters["by"]), request[REPOSITORY]

    async def read() -> Answer:
        reader = request.app[CONTEXT].reader
        found = await reader.group_tests(repository, by, MOST_GROUPS)
        return make_answer(_encode(_Groups(tuple(found))))

    answer = await request[READER].find_groups(repository, by.value.encode(), read)
    return respond(request, answer, ignored=ignored)
