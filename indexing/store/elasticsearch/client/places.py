"""Where documents are, and what is searched: the parts of requests for many of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document is; of a document read there, only `fields` are wanted if given."""

    index: str
    id: str
    routing: str | None = None
    fields: Sequence[str] | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """The place as a request for many documents names it."""
        asked: dict[str, Any] = {"_index": self.index, "_id": self.id}
        if self.routing is not None:
            asked["routing"] = self.routing
        if self.fields is not None:
            asked["_source"] = self.fields
        return asked


@dataclass(frozen=True, slots=True)
class Search:
    """A search of an index or a pattern of indices, for `Connection.search_many`."""

    index: str
    body: Mapping[str, Any]
    routing: str | None = None
