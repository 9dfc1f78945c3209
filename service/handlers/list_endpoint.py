"""The steps that the three lists share: admit the request, read its parameters and its cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiohttp import web
from multidict import CIMultiDict

from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from service.context import Context
from service.handlers.admission import Admission, admit
from service.pagination.cursor import Position, Window
from service.pagination.key_codec import KeyCodec
from service.pagination.links import links
from service.pagination.page_ends import Ends
from service.pagination.paginator import ListQuery, Paginator, start_paginator
from service.routes import ListRoute

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class ListEndpoint(Generic[K]):
    """One list of the API, and the sort keys of its rows."""

    route: ListRoute
    keys: KeyCodec[K]


@dataclass(frozen=True, slots=True)
class OpenList(Generic[K]):
    """An admitted request for a page of a list."""

    request: web.Request
    admission: Admission
    query: ListQuery
    paginator: Paginator[K]
    position: Position[K]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters."""
        return self.query.parameters

    @property
    def context(self) -> Context:
        """What handlers find in the application."""
        return self.admission.context

    @property
    def repository(self) -> RepositoryName:
        """The repository, in its stored spelling."""
        return self.admission.repository

    @property
    def anchor(self) -> Anchor[K]:
        """Where the page lies, for the store."""
        return Anchor(self.position.key, self.position.backward)

    def links(self, ends: Ends[bytes], window: Window | None = None) -> CIMultiDict[str]:
        """The `Link` header of the page that ends there; raises as `pagination.links` does."""
        return links(
            self.request,
            self.context.public_url,
            self.paginator,
            self.query,
            ends,
            backward=self.position.backward,
            window=window,
        )


async def open_list(request: web.Request, endpoint: ListEndpoint[K]) -> OpenList[K]:
    """Check a request for a page, in the order that `admit` keeps and then `start_paginator`.

    Raises:
        Problem: as those do.
    """
    admission = await admit(request, endpoint.route)
    query, paginator, position = start_paginator(
        endpoint.route.query,
        request.rel_url.raw_query_string,
        admission.context.cursor_signer,
        endpoint.route.operation,
        admission.repository,
        endpoint.keys,
    )
    return OpenList(request, admission, query, paginator, position)
