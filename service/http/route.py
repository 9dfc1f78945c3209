"""What the API declares of an operation: its path, parameters, request body and response. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from marshmallow import Schema

from service.http.operations import Operation
from service.http.path_params import OWNER, PathParameter
from service.schemas.query import Query

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def _segment(parameter: re.Match[str]) -> str:
    is_last = parameter.end() == len(parameter.string)
    return "[^/]+" if is_last else "[^/]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation. `answer` names a component of the OpenAPI document.

    `media_types` are those of the request body, `body` is the schema of a JSON one. An operation
    that takes a body is a POST, unless `verb` says otherwise. `statuses` are those of success; 204
    has no body. `binary_answer` is a media type other than JSON, `row_types` are those of a stream
    of all rows, `stream_type` of an endless one.
    """

    operation: Operation
    url: str
    operation_id: str
    summary: str
    path: tuple[PathParameter, ...]
    answer: str | None
    query: Query | None = None
    media_types: tuple[str, ...] = ()
    body: Schema | None = None
    verb: str | None = None
    statuses: tuple[int, ...] = (200,)
    binary_answer: str | None = None
    row_types: tuple[str, ...] = ()
    stream_type: str | None = None

    @property
    def is_of_owner(self) -> bool:
        """Whether the path names an owner and no repository."""
        return self.path == (OWNER,)

    @property
    def method(self) -> str:
        """The HTTP method in lower case."""
        return self.verb or ("post" if self.media_types else "get")

    @property
    def is_tagged(self) -> bool:
        """Whether its JSON responses have an entity tag."""
        return self.method == "get" and self.stream_type is None

    @property
    def path_pattern(self) -> str:
        """The path for the router of aiohttp.

        A parameter matches any segment, even an empty one before the last: its errors are reported
        only after the credential was verified.
        """
        return _PARAMETER.sub(lambda found: f"{{{found[1]}:{_segment(found)}}}", self.url)

    @property
    def path_expression(self) -> re.Pattern[str]:
        """The regular expression that a raw path of this operation matches."""
        return re.compile(_PARAMETER.sub(_segment, self.url))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRoute(Route):
    """An operation with parameters in its query string."""

    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRoute(QueryRoute):
    """An operation that answers with pages."""
