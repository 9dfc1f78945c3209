"""Groups of tests: which pipelines, jobs, directories and owners are the worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from indexing.groups import FindValues, find_directory
from indexing.models.groups import MOST_GROUPS, Grouping, TestGroup
from service.cache.answers import Answer, make_answer
from service.context import CONTEXT, READER, REPOSITORY
from service.handlers.code_owners import OwnerSearch
from service.handlers.parameters import read_parameters
from service.middleware.response_cache import respond
from service.routes import GROUP_TESTS
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import TestGroupsAnswer

_encode: Final = compile_encoder(TestGroupsAnswer)


@dataclass(frozen=True, slots=True)
class _Groups:
    groups: Sequence[TestGroup]


async def group_tests(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/groups."""
    parameters, ignored = read_parameters(request, GROUP_TESTS)
    by, repository = Grouping(parameters["by"]), request[REPOSITORY]

    async def read() -> Answer:
        find_values: FindValues = find_directory
        if by is Grouping.OWNER:
            find_values = await OwnerSearch(request, repository).open_groups()
        found = await request.app[CONTEXT].reader.group_tests(
            repository, by, MOST_GROUPS, find_values
        )
        return make_answer(_encode(_Groups(found)))

    answer = await request[READER].find_groups(repository, by.value.encode(), read)
    return respond(request, answer, ignored=ignored)
