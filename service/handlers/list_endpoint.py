"""The steps that all lists share: read the parameters, the cursor and the page; make the links."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from aiohttp import web

from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from service.cache.answers import Answer, make_answer
from service.context import CONTEXT, REPOSITORY, Context
from service.http import problems
from service.http.query_string import FindErrors, find_none
from service.http.route import ListRoute
from service.pagination.cursor import Ends, KeyCodec, Position, TimeRange
from service.pagination.paginator import ListQuery, Paginator, links, start_paginator
from service.pagination.sort_keys import pack_ends
from service.schemas.compiled import Encoder
from service.schemas.limits import DEFAULT_PER_PAGE
from service.schemas.responses import Rows

K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ListEndpoint(Generic[K]):
    """One list of the API, and the sort keys of its rows."""

    route: ListRoute
    keys: KeyCodec[K]


class OpenList(NamedTuple, Generic[K]):
    """A request for a page of a list, with its parameters read."""

    request: web.Request
    context: Context
    endpoint: ListEndpoint[K]
    repository: RepositoryName
    query: ListQuery
    paginator: Paginator[K]
    position: Position[K]
    # The parameters, the position of the page as the store takes it, and the page size in effect.
    parameters: Mapping[str, Any]
    anchor: Anchor[K]
    per_page: int

    def links(self, ends: Ends[bytes], time_range: TimeRange | None = None) -> tuple[str, ...]:
        """Return the `Link` fields of a page with these ends; raises as `paginator.links` does."""
        return links(
            self.request,
            self.context.public_url,
            self.paginator,
            self.query,
            ends,
            backward=self.position.backward,
            time_range=time_range,
        )


def open_list(
    request: web.Request, endpoint: ListEndpoint[K], find_errors: FindErrors = find_none
) -> OpenList[K]:
    """Read the parameters of a request for a page; `find_errors` is as in `start_paginator`.

    Raises:
        Problem: as `start_paginator` does.
    """
    context, repository = request.app[CONTEXT], request[REPOSITORY]
    # A repository's key has exactly one slash, so what is appended cannot be confused with it.
    items = endpoint.route.path[2:]
    within = "".join([f"/{request.match_info[each.name].lower()}" for each in items])
    query, paginator, position = start_paginator(
        endpoint.route.query,
        request.rel_url.raw_query_string,
        context.cursor_signer,
        endpoint.route.operation,
        repository,
        endpoint.keys,
        within,
        find_errors,
    )
    return OpenList(
        request,
        context,
        endpoint,
        repository,
        query,
        paginator,
        position,
        query.parameters,
        Anchor(position.key, position.backward),
        query.parameters["per_page"] or DEFAULT_PER_PAGE,
    )


def read_present(
    read: Callable[[Anchor[K], int], Coroutine[Any, Any, Page[R] | None]],
) -> Callable[[Anchor[K], int], Coroutine[Any, Any, Page[R]]]:
    """Return a read that raises a 404 if `read` returns `None`: the test is not known."""

    async def read_all(anchor: Anchor[K], limit: int) -> Page[R]:
        page = await read(anchor, limit)
        if page is None:
            raise problems.not_found("test")
        return page

    return read_all


async def read_page(
    opened: OpenList[K],
    read: Callable[[Anchor[K], int], Coroutine[Any, Any, Page[R] | None]],
    encode: Encoder,
) -> Answer:
    """Return one page of an opened list, read by `read`; nothing is cached.

    Raises:
        Problem: 404 if `read` returns `None`, as `read_present` does.
    """
    page = await read_present(read)(opened.anchor, opened.per_page)
    body = encode(Rows(page.rows, len(page.rows), opened.per_page))
    return make_answer(body, pack_ends(page, opened.endpoint.keys))
