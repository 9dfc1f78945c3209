"""The items of requests for several documents or searches at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

# A pattern may match no index. Closed indices are included, so that they raise an error.
WILDCARDS: Final = "open,closed"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a document; with `fields`, a tuple, only these fields of it are read."""

    index: str
    id: str
    routing: str | None = None
    fields: Sequence[str] | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """The place in the format of a multi-get request."""
        asked: dict[str, Any] = {"_index": self.index, "_id": self.id}
        if self.routing is not None:
            asked["routing"] = self.routing
        if self.fields is not None:
            asked["_source"] = self.fields
        return asked


@dataclass(frozen=True, slots=True)
class Search:
    """A search of an index or a pattern of indices, for `Connection.search_many`.

    Searches with equal words in `copy` go to the same copy of each shard, as long as it exists.
    """

    index: str
    body: Mapping[str, Any]
    routing: str | None = None
    copy: str | None = None

    @property
    def lines(self) -> tuple[bytes, bytes]:
        """The search in the format of a request for several searches."""
        header: dict[str, Any] = {
            "index": self.index,
            "allow_partial_search_results": False,
            "expand_wildcards": WILDCARDS,
        }
        if self.routing is not None:
            header["routing"] = self.routing
        if self.copy is not None:
            header["preference"] = self.copy
        return orjson.dumps(header), orjson.dumps(self.body)
