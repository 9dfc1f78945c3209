"""What the three lists do alike: let the request in, read its parameters, find where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiohttp import web
from marshmallow import Schema
from multidict import CIMultiDict

from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from service.context import Admission, Context, admit
from service.http.operations import Operation
from service.http.path_params import PathParameter
from service.pagination.cursor import KeyForm, Position, Window
from service.pagination.links import ListQuery, Walk, begin_walk, links
from service.pagination.page_ends import Ends

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Listing(Generic[K]):
    """One list of the API: its operation, its parameters, and the keys of its rows."""

    operation: Operation
    path: tuple[PathParameter, ...]
    query: Schema
    keys: KeyForm[K]


@dataclass(frozen=True, slots=True)
class OpenList(Generic[K]):
    """A request for a page of a list that may be answered."""

    request: web.Request
    admission: Admission
    query: ListQuery
    walk: Walk[K]
    position: Position[K]

    @property
    def asked(self) -> Mapping[str, Any]:
        """The parameters."""
        return self.query.asked

    @property
    def context(self) -> Context:
        """What answers are made with."""
        return self.admission.context

    @property
    def repository(self) -> RepositoryName:
        """The repository, in the spelling that holds."""
        return self.admission.repository

    @property
    def anchor(self) -> Anchor[K]:
        """Where the page lies, by what the cursor carries."""
        return Anchor(self.position.key, self.position.backward)

    def links(self, ends: Ends[bytes], window: Window | None = None) -> CIMultiDict[str]:
        """The `Link` header of the page that ends there; raises as `pagination.links` does."""
        return links(
            self.request,
            self.context.public_url,
            self.walk,
            self.query,
            ends,
            backward=self.position.backward,
            window=window,
        )


async def open_list(request: web.Request, listing: Listing[K]) -> OpenList[K]:
    """Check a request for a page, in the order that `admit` keeps and then `begin_walk`.

    Raises:
        Problem: as those do.
    """
    admission = await admit(request, listing.operation, listing.path)
    query, walk, position = begin_walk(
        listing.query,
        request.rel_url.raw_query_string,
        admission.context.seal,
        listing.operation,
        admission.repository,
        listing.keys,
    )
    return OpenList(request, admission, query, walk, position)
