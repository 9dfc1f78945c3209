"""The pages of every list: from a cursor to an anchor, and from a page to its links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import orjson
from aiohttp import web
from marshmallow import Schema
from multidict import CIMultiDict

from indexing.names import RepositoryName
from service import problems
from service.answers import Ends
from service.auth import Operation
from service.cursor import (
    InvalidCursorError,
    KeyForm,
    OtherStoreError,
    Position,
    Seal,
    Window,
    read_cursor,
    scope_of,
    write_cursor,
)
from service.field_errors import FieldError
from service.problems import Problem
from service.query import CURSOR_FIELD, PER_PAGE_FIELD, encode_raw, load, split

K = TypeVar("K")

# Where common clients stop reading a header field, aiohttp's among them, less its name.
_LONGEST_FIELD: Final = 8_000

# What was read of so many queries is kept, of those that are no longer than this.
_READ_QUERIES: Final = 2_048
_SHORT_QUERY: Final = 1_024

# RFC 3986, section 3.2.2, without the characters that no host name has.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._\-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Walk(Generic[K]):
    """One list of one repository under one set of filters, to be walked by cursors."""

    seal: Seal
    scope: bytes
    form: KeyForm[K]

    def locate(self, cursor: str) -> Position[K]:
        """The position that a cursor names; raises what `read_cursor` does."""
        return read_cursor(self.seal, self.scope, self.form, cursor)

    def cursor(self, position: Position[bytes]) -> str:
        """The cursor of a position whose key is packed."""
        return write_cursor(self.seal, self.scope, position)


def begin_walk(
    schema: Schema,
    raw_query: str,
    seal: Seal,
    operation: Operation,
    repository: RepositoryName,
    form: KeyForm[K],
) -> tuple[Mapping[str, Any], Walk[K], Position[K]]:
    """Read a list's parameters: gives them, the walk that they ask for, and where it stands.

    The size of a page is no part of a walk: it may change on the way.

    Raises:
        Problem: 422 that names every wrong parameter, the cursor too; 409 for a cursor of another
            store.
    """
    read = _read_again if len(raw_query) <= _SHORT_QUERY else _read
    asked, canonical, wrong = read(schema, raw_query)
    errors = list(wrong)
    walk = Walk(seal, scope_of(operation.value, repository.key, canonical), form)
    position: Position[K] = Position()
    elsewhere = False
    # Where a filter is wrong it is missing here, and no cursor is one of what is left.
    if (cursor := asked.get(CURSOR_FIELD)) is not None:
        try:
            position = walk.locate(cursor)
        except InvalidCursorError as error:
            errors.append(FieldError("query", CURSOR_FIELD, str(error)))
        except OtherStoreError:
            elsewhere = True
    if errors:
        raise problems.invalid(errors)
    if elsewhere:
        raise problems.stale_cursor()
    return asked, walk, position


def _read(
    schema: Schema, raw_query: str
) -> tuple[Mapping[str, Any], bytes, tuple[FieldError, ...]]:
    """The parameters, the filters among them in canonical form, and what is wrong."""
    asked, errors = load(schema, raw_query)
    filters = {
        name: value for name, value in asked.items() if name not in (CURSOR_FIELD, PER_PAGE_FIELD)
    }
    canonical = orjson.dumps(filters, option=orjson.OPT_SORT_KEYS)
    return MappingProxyType(asked), canonical, tuple(errors)


# Who polls asks the same every time, and reading the query is a fifth of an answer.
_read_again: Final = lru_cache(_READ_QUERIES)(_read)


def links(
    request: web.Request,
    public_url: str | None,
    walk: Walk[K],
    ends: Ends[bytes],
    window: Window | None = None,
) -> CIMultiDict[str]:
    """The `Link` header (RFC 8288) of a page that ends there, in packed keys.

    Several headers where one would be too long for clients.

    Raises:
        Problem: 400 where links have to be made from a `Host` header that is none.
    """
    found: list[tuple[str, bytes | None, bool]] = [("first", None, False)]
    if ends.has_previous:
        # A page may be empty because its rows are gone: what lies before it is the list's end.
        found.append(("prev", ends.first, True))
    if ends.has_next:
        found.append(("next", ends.last, False))
    found.append(("last", None, True))
    before, after = _around_cursor(request, public_url)
    values = [
        f'<{before}{walk.cursor(Position(key, backward, window))}{after}>; rel="{relation}"'
        for relation, key, backward in found
    ]
    joined = ", ".join(values)
    return CIMultiDict(
        (("Link", value) for value in values)
        if len(joined) > _LONGEST_FIELD
        else [("Link", joined)]
    )


def _around_cursor(request: web.Request, public_url: str | None) -> tuple[str, str]:
    """The caller's own URL on either side of the value of `cursor`."""
    base = public_url if public_url is not None else f"http://{_host(request)}"
    before: list[str] = []
    after: list[str] = []
    target = before
    for piece in split(request.rel_url.raw_query_string):
        if piece.name == CURSOR_FIELD:
            target = after
        else:
            target.append(encode_raw(piece.raw))
    path = base + encode_raw(request.rel_url.raw_path)
    query = "&".join([*before, f"{CURSOR_FIELD}="])
    return f"{path}?{query}", "".join(f"&{piece}" for piece in after)


def _host(request: web.Request) -> str:
    hosts = request.headers.getall("Host", ())
    # RFC 9112, section 3.2, asks for a 400 here.
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise Problem(400, "exactly one well-formed Host header is needed")
    return hosts[0]
