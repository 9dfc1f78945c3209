"""The repositories of an owner that a credential covers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aiohttp import web

from indexing.models.listed_repositories import (
    RepositoryKey,
    RepositoryQuery,
    RepositorySort,
)
from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.auth.principal import Principal
from service.cache.answers import Answer, canonical_page, make_answer
from service.context import CONTEXT, PRINCIPAL, READER
from service.http import problems
from service.http.path_params import OWNER, REPOSITORY
from service.middleware.response_cache import respond
from service.pagination.cursor import Position
from service.pagination.paginator import links, start_paginator
from service.pagination.sort_keys import (
    REPOSITORY_KEYS,
    pack_ends,
    shorten_repository,
    start_of_shortened,
)
from service.routes import LIST_REPOSITORIES
from service.schemas.compiled import compile_encoder
from service.schemas.insight_answers import RepositoryPageAnswer
from service.schemas.limits import DEFAULT_PER_PAGE
from service.schemas.responses import Rows

_encode: Final = compile_encoder(RepositoryPageAnswer)
# How many repositories are read at once to find the one with a shortened name.
_SEARCHED_AT_ONCE: Final = 100


async def list_repositories(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories."""
    context, owner = request.app[CONTEXT], request.match_info[OWNER.name]
    query, paginator, position = start_paginator(
        LIST_REPOSITORIES.query,
        request.rel_url.raw_query_string,
        context.cursor_signer,
        LIST_REPOSITORIES.operation,
        # No repository has an empty name, so these cursors are valid for no other list.
        RepositoryName(owner, ""),
        REPOSITORY_KEYS,
    )
    parameters = query.parameters
    limit = parameters["per_page"] or DEFAULT_PER_PAGE
    requested = parameters[REPOSITORY.name]
    if not _covers(request[PRINCIPAL], requested):
        answer = make_answer(_encode(Rows((), 0, limit)))
    else:
        wanted = RepositoryQuery(
            owner,
            context.clock(),
            requested or request[PRINCIPAL].repository,
            RepositorySort(parameters["sort"]),
        )
        answer = await _find(request, wanted, position, limit)
    link = links(
        request,
        context.public_url,
        paginator,
        query,
        answer.ends,
        backward=position.backward,
    )
    return respond(request, answer, link, ignored=query.ignored)


async def _find(
    request: web.Request, query: RepositoryQuery, position: Position[RepositoryKey], limit: int
) -> Answer:
    reader = request.app[CONTEXT].reader
    key, backward = position.key, position.backward

    async def read() -> Answer:
        beside = None if key is None else await _with_whole_name(reader, query, key)
        page = await reader.list_owned(query, Anchor(beside, backward), limit)
        body = _encode(Rows(page.rows, len(page.rows), limit))
        ends = pack_ends(page, REPOSITORY_KEYS, lambda row: row.key_in(query.sort))
        return make_answer(body, ends)

    name = query.name and query.name.lower()
    canonical = canonical_page(
        (name, query.sort), Anchor(key, backward), limit, REPOSITORY_KEYS.pack
    )
    return await request[READER].find_owned(query.owner, canonical, read)


async def _with_whole_name(
    reader: Reader, query: RepositoryQuery, key: RepositoryKey
) -> RepositoryKey:
    """Return the key with the whole name of its repository, which its cursor may have shortened."""
    start = start_of_shortened(key.name)
    if start is None:
        return key
    by_name = replace(query, sort=RepositorySort.NAME)
    # All names with that start follow it, one after another.
    place = RepositoryKey(start)
    while True:
        page = await reader.list_owned(by_name, Anchor(place), _SEARCHED_AT_ONCE)
        for row in page.rows:
            place = row.key_in(by_name.sort)
            if shorten_repository(place.name) == key.name:
                return replace(key, name=place.name)
        if not (page.has_next and place.name.startswith(start)):
            raise problems.stale_cursor()


def _covers(principal: Principal, requested: str | None) -> bool:
    """Whether a credential for the owner covers the requested repository, if one is named."""
    covered = principal.repository
    return requested is None or covered is None or requested.lower() == covered.lower()
