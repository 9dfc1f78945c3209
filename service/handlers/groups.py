"""Groups of tests: which pipelines, jobs, directories and owners are the worst."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from aiohttp import web

from indexing.errors import StoreUnavailableError
from indexing.groups import FindValues, find_directory
from indexing.models.groups import MOST_GROUPS, Grouping, TestGroup
from indexing.names import RepositoryName
from indexing.owners.finding import Owners
from indexing.store.interface import Reader
from service.cache.answers import Answer, make_answer
from service.context import CONTEXT, READER, REPOSITORY
from service.handlers.parameters import read_parameters
from service.middleware.response_cache import respond
from service.middleware.timeout import READ_SECONDS
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import TestGroupsAnswer
from service.schemas.insight_queries import GroupsQuery

# How many parsed files are cached: a large one takes a second to parse, and tens of megabytes.
_MAX_FILES: Final = 4

_QUERY: Final = GroupsQuery()
_encode: Final = compile_encoder(TestGroupsAnswer)
_read_owners: Final = lru_cache(_MAX_FILES)(Owners)


@dataclass(frozen=True, slots=True)
class _Groups:
    groups: Sequence[TestGroup]


async def group_tests(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/tests/groups."""
    parameters, ignored = read_parameters(request, _QUERY)
    by, repository = Grouping(parameters["by"]), request[REPOSITORY]

    async def read() -> Answer:
        reader = request.app[CONTEXT].reader
        find_values: FindValues = find_directory
        if by is Grouping.OWNER:
            find_values = await _open_owners(reader, repository)
        found = await reader.group_tests(repository, by, MOST_GROUPS, find_values)
        return make_answer(_encode(_Groups(found)))

    answer = await request[READER].find_groups(repository, by.value.encode(), read)
    return respond(request, answer, ignored=ignored)


async def _open_owners(reader: Reader, repository: RepositoryName) -> FindValues:
    """Return a function that finds the owners of a file; it raises after the request's timeout.

    Owners that were found by then stay cached, so a later request continues from there.
    """
    deadline = time.monotonic() + READ_SECONDS
    text = await reader.get_code_owners(repository)
    owners = await asyncio.to_thread(_read_owners, text or "")

    def check() -> None:
        if time.monotonic() > deadline:
            raise StoreUnavailableError("finding the owners of all files takes too long")

    return lambda filepath, _: owners.find(filepath, check)
