"""Reads the position of a page from a list's query string, and makes the links of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

import orjson
from aiohttp import web

from indexing.names import RepositoryName
from service.http import problems
from service.http.field_errors import FieldError
from service.http.operations import Operation
from service.http.problems import Problem
from service.http.query_string import (
    CURSOR_FIELD,
    INCLUDE_FIELD,
    PER_PAGE_FIELD,
    FindErrors,
    Piece,
    encode_raw,
    find_none,
    load,
    name_ignored,
    split,
)
from service.http.targets import MAX_TARGET_BYTES
from service.pagination.cursor import (
    CursorSigner,
    CursorWriter,
    Ends,
    InvalidCursorError,
    KeyCodec,
    OtherStoreError,
    Position,
    TimeRange,
    identify_list,
    make_cursor_writer,
    read_cursor,
)
from service.schemas.limits import CURSOR_MAX_LENGTH
from service.schemas.query import Query

K = TypeVar("K")

# How many parsed queries are cached, and the length of the longest of them.
_READ_QUERIES: Final = 2_048
_SHORT_QUERY: Final = 1_024

# A cursor as it appears in links, and its placeholder in a cached query.
_CURSOR: Final = re.compile(
    rf"(?:^|&){CURSOR_FIELD}=([A-Za-z0-9_\-]{{1,{CURSOR_MAX_LENGTH}}})(?=&|\Z)"
)
_ANY_CURSOR: Final = "_"

# The parameters that are no filters.
_OF_A_PAGE: Final = (CURSOR_FIELD, PER_PAGE_FIELD, INCLUDE_FIELD)

# The longest `Link` field: aiohttp's client stops at 8,190 bytes with the name.
MAX_FIELD_BYTES: Final = 8_180
# All `Link` fields: Node accepts 16 KiB of headers, of which the others take up to 2 KiB.
MAX_LINK_BYTES: Final = 14_000

# RFC 3986, section 3.2.2, without the characters that no host name has.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._\-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Paginator(Generic[K]):
    """Reads and writes the cursors of one list, of one repository and one set of filters."""

    signer: CursorSigner
    list_id: bytes
    repository: RepositoryName
    codec: KeyCodec[K]

    def locate(self, cursor: str) -> Position[K]:
        """Return the position in a cursor; raises what `read_cursor` raises."""
        return read_cursor(self.signer, self.list_id, self.codec, cursor)

    def open_writer(self, time_range: TimeRange | None) -> CursorWriter:
        """Return a function that writes the cursors of this list within a time range."""
        return make_cursor_writer(self.signer, self.list_id, time_range)

    def shorten(self, key: bytes | None) -> bytes | None:
        """Return the shortest packed key of that row, for a URL with little room left."""
        return None if key is None else self.codec.shorten(self.repository, key)


class ListQuery(NamedTuple):
    """The query of a list: its parameters, and the parts of it that the response repeats.

    `before` and `after` are the parameters around the cursor, percent-encoded; `ignored` names
    unknown parameters. The cursor in `parameters` may be a placeholder.
    """

    parameters: Mapping[str, Any]
    errors: tuple[FieldError, ...]
    canonical: bytes
    before: str
    after: str
    ignored: str | None


def start_paginator(
    schema: Query,
    raw_query: str,
    signer: CursorSigner,
    operation: Operation,
    repository: RepositoryName,
    codec: KeyCodec[K],
    within: str = "",
    find_errors: FindErrors = find_none,
) -> tuple[ListQuery, Paginator[K], Position[K]]:
    """Read the parameters of a list; return them, their paginator, and the position of the page.

    Page size and `include` are not bound to the cursor: they may change between pages. `within`
    names the part of the repository that the list is about; the cursor is bound to it, too.
    `find_errors` finds the errors of a first page that the schema cannot find.

    Raises:
        Problem: 422 that names every wrong parameter, the cursor too; 409 for a cursor of another
            store.
    """
    lasting, cursor = _take_cursor(raw_query)
    read = _read_again if len(lasting) <= _SHORT_QUERY else _read
    query = read(schema, lasting)
    errors = list(query.errors)
    list_id = identify_list(operation.value, repository.key + within, query.canonical)
    paginator = Paginator(signer, list_id, repository, codec)
    position: Position[K] = Position()
    elsewhere = False
    # A wrong filter is missing here, so that its cursor does not match; both are reported.
    if (text := query.parameters.get(CURSOR_FIELD)) is not None:
        try:
            position = paginator.locate(cursor or text)
        except InvalidCursorError as error:
            errors.append(FieldError("query", CURSOR_FIELD, str(error)))
        except OtherStoreError:
            elsewhere = True
    if position.time_range is None:
        errors += find_errors(query.parameters)
    if errors:
        raise problems.invalid(errors)
    if elsewhere:
        raise problems.stale_cursor()
    return query, paginator, position


def _take_cursor(raw_query: str) -> tuple[str, str | None]:
    """Return the query with a placeholder for its cursor, and the cursor if it is well-formed.

    The pages of a list differ only in the cursor. The placeholder is read like a cursor.
    """
    found = _CURSOR.search(raw_query)
    if found is None:
        return raw_query, None
    return raw_query[: found.start(1)] + _ANY_CURSOR + raw_query[found.end(1) :], found[1]


def _read(schema: Query, raw_query: str) -> ListQuery:
    pieces, unknown = split(raw_query, schema.load_fields)
    parameters, errors = load(schema, pieces)
    filters = {**parameters}
    for name in _OF_A_PAGE:
        filters.pop(name, None)
    before = after = ""
    # A request with errors has no links.
    if not errors:
        if unknown or parameters.get(CURSOR_FIELD) is not None:
            before, after = _around_cursor(pieces)
        else:
            before = encode_raw(f"{raw_query}&")
    return ListQuery(
        MappingProxyType(parameters),
        tuple(errors),
        orjson.dumps(filters, option=orjson.OPT_SORT_KEYS),
        before,
        after,
        name_ignored(unknown) if unknown else None,
    )


# Clients that poll or read all pages repeat their query; parsing it is a fifth of the work.
_read_again: Final = lru_cache(_READ_QUERIES)(_read)


def _around_cursor(pieces: list[Piece]) -> tuple[str, str]:
    before: list[str] = []
    after: list[str] = []
    target = before
    for piece in pieces:
        if piece.name == CURSOR_FIELD:
            target = after
        else:
            target.append(piece.raw)
    # Encoding the joined parts is one scan, however many there are. It keeps `&` as it is.
    return (
        encode_raw("".join(f"{part}&" for part in before)),
        encode_raw("".join(f"&{part}" for part in after)),
    )


def links(
    request: web.Request,
    public_url: str | None,
    paginator: Paginator[K],
    query: ListQuery,
    ends: Ends[bytes],
    *,
    backward: bool,
    time_range: TimeRange | None = None,
) -> tuple[str, ...]:
    """Return the `Link` fields (RFC 8288) of a page with these ends, which are packed keys.

    All links are in one field, or in one field each if that would be too long for clients. If all
    fields together are too long, links are left out; those in the reading direction are kept first.

    Raises:
        Problem: 400 if links need the host of the request and it is malformed; 414 if a link would
            be too long.
    """
    base = public_url if public_url is not None else f"http://{_host(request)}"
    path = encode_raw(request.rel_url.raw_path)
    lasting = len(path) + 1 + len(query.before) + len(query.after)
    if lasting > MAX_TARGET_BYTES + 1:
        # Characters that were not percent-encoded in the request now take more bytes.
        raise problems.target_too_long()
    longest = MAX_TARGET_BYTES - lasting - len(CURSOR_FIELD) - 1
    write_cursor = paginator.open_writer(time_range)
    # All links of a page begin and end like this.
    before = f"<{base}{path}?{query.before}{CURSOR_FIELD}="
    after = f'{query.after}>; rel="'

    values = {}
    for relation, key, towards_start in _relations(ends):
        cursor = write_cursor(key, towards_start)
        if len(cursor) > longest:
            cursor = write_cursor(paginator.shorten(key), towards_start)
        values[relation] = f'{before}{cursor}{after}{relation}"'
    joined = ", ".join(values.values())
    return (joined,) if len(joined) <= MAX_FIELD_BYTES else _divide(values, backward=backward)


def _divide(values: Mapping[str, str], *, backward: bool) -> tuple[str, ...]:
    """Return the fields of links, by relation, that are too long for one field."""
    if max(map(len, values.values())) > MAX_FIELD_BYTES:
        raise problems.target_too_long()
    fitting = [*_fitting(values, backward=backward)]
    joined = ", ".join(fitting)
    return tuple(fitting) if len(joined) > MAX_FIELD_BYTES else (joined,)


def _relations(ends: Ends[bytes]) -> Iterator[tuple[str, bytes | None, bool]]:
    """Yield each link's relation, the key beside its page, and whether it is read backward."""
    yield "first", None, False
    if ends.has_previous:
        # A page may be empty because its rows are gone: what lies before it is the list's end.
        yield "prev", ends.first, True
    if ends.has_next:
        yield "next", ends.last, False
    yield "last", None, True


def _fitting(values: Mapping[str, str], *, backward: bool) -> Iterator[str]:
    """Return the links that fit into the headers of a response, in their order."""
    order = ("prev", "next", "last", "first") if backward else ("next", "prev", "first", "last")
    room = MAX_LINK_BYTES
    kept = set()
    for relation in order:
        if relation in values and len(values[relation]) <= room:
            room -= len(values[relation])
            kept.add(relation)
    return (value for relation, value in values.items() if relation in kept)


def _host(request: web.Request) -> str:
    hosts = request.headers.getall("Host", ())
    if len(hosts) == 1 and not request.raw_path.startswith("/"):
        # The target is a whole URL. Its host counts, not the header: RFC 9112, section 3.2.2.
        hosts = [request.url.host_port_subcomponent or ""]
    # RFC 9112, section 3.2, requires a 400 here.
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise Problem(400, "exactly one well-formed Host header is required")
    return hosts[0]
