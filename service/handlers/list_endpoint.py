"""The steps that all lists share: read the parameters and the cursor, and make the links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiohttp import web
from multidict import CIMultiDict

from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from service.context import CONTEXT, REPOSITORY, Context
from service.pagination.cursor import Ends, KeyCodec, Position, Window
from service.pagination.paginator import ListQuery, Paginator, links, start_paginator
from service.routes import ListRoute

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class ListEndpoint(Generic[K]):
    """One list of the API, and the sort keys of its rows."""

    route: ListRoute
    keys: KeyCodec[K]


@dataclass(frozen=True, slots=True)
class OpenList(Generic[K]):
    """A request for a page of a list, with its parameters read."""

    request: web.Request
    context: Context
    repository: RepositoryName
    query: ListQuery
    paginator: Paginator[K]
    position: Position[K]
    # The parameters, and where the page lies for the store.
    parameters: Mapping[str, Any]
    anchor: Anchor[K]

    def links(self, ends: Ends[bytes], window: Window | None = None) -> CIMultiDict[str]:
        """The `Link` header of the page that ends there; raises as `paginator.links` does."""
        return links(
            self.request,
            self.context.public_url,
            self.paginator,
            self.query,
            ends,
            backward=self.position.backward,
            window=window,
        )


def open_list(request: web.Request, endpoint: ListEndpoint[K]) -> OpenList[K]:
    """Read what a request for a page asks for.

    Raises:
        Problem: as `start_paginator` does.
    """
    context, repository = request.app[CONTEXT], request[REPOSITORY]
    query, paginator, position = start_paginator(
        endpoint.route.query,
        request.rel_url.raw_query_string,
        context.cursor_signer,
        endpoint.route.operation,
        repository,
        endpoint.keys,
    )
    anchor = Anchor(position.key, position.backward)
    return OpenList(
        request, context, repository, query, paginator, position, query.parameters, anchor
    )
