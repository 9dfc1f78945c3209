"""From the query string of a list to its parameters, and to the place that its cursor names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import orjson
from marshmallow import Schema

from indexing.names import RepositoryName
from service.http import problems
from service.http.field_errors import FieldError
from service.http.ignored_parameters import name_ignored
from service.http.operations import Operation
from service.http.query_string import CURSOR_FIELD, PER_PAGE_FIELD, Piece, encode_raw, load, split
from service.pagination.cursor import (
    CursorSigner,
    InvalidCursorError,
    OtherStoreError,
    Position,
    read_cursor,
    scope_of,
    write_cursor,
)
from service.pagination.key_codec import KeyCodec

K = TypeVar("K")

# How many parsed queries are cached, and the length of the longest of them.
_READ_QUERIES: Final = 2_048
_SHORT_QUERY: Final = 1_024


@dataclass(frozen=True, slots=True)
class Paginator(Generic[K]):
    """Reads and writes the cursors of one list, of one repository and one set of filters."""

    signer: CursorSigner
    scope: bytes
    repository: RepositoryName
    codec: KeyCodec[K]

    def locate(self, cursor: str) -> Position[K]:
        """The position in a cursor; raises what `read_cursor` does."""
        return read_cursor(self.signer, self.scope, self.codec, cursor)

    def cursor(self, position: Position[bytes]) -> str:
        """The cursor of a position whose key is packed."""
        return write_cursor(self.signer, self.scope, position)

    def short_cursor(self, position: Position[bytes]) -> str:
        """The shortest cursor of that position, for where there is little room."""
        if position.key is not None:
            key = self.codec.shorten(self.repository, position.key)
            position = replace(position, key=key)
        return self.cursor(position)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The query of a list: its parameters, and what of it is given back.

    `before` and `after` are the parameters around the cursor, percent-encoded; `ignored` names
    the others.
    """

    parameters: Mapping[str, Any]
    errors: tuple[FieldError, ...]
    canonical: bytes
    before: str
    after: str
    ignored: str | None


def start_paginator(
    schema: Schema,
    raw_query: str,
    signer: CursorSigner,
    operation: Operation,
    repository: RepositoryName,
    codec: KeyCodec[K],
) -> tuple[ListQuery, Paginator[K], Position[K]]:
    """Read the parameters of a list: gives them, their paginator, and the position of the page.

    The page size is not bound to the cursor: it may change between pages.

    Raises:
        Problem: 422 that names every wrong parameter, the cursor too; 409 for a cursor of another
            store.
    """
    read = _read_again if len(raw_query) <= _SHORT_QUERY else _read
    query = read(schema, raw_query)
    errors = list(query.errors)
    scope = scope_of(operation.value, repository.key, query.canonical)
    paginator = Paginator(signer, scope, repository, codec)
    position: Position[K] = Position()
    elsewhere = False
    # A wrong filter is missing here, so that its cursor does not match; both are reported.
    if (cursor := query.parameters.get(CURSOR_FIELD)) is not None:
        try:
            position = paginator.locate(cursor)
        except InvalidCursorError as error:
            errors.append(FieldError("query", CURSOR_FIELD, str(error)))
        except OtherStoreError:
            elsewhere = True
    if errors:
        raise problems.invalid(errors)
    if elsewhere:
        raise problems.stale_cursor()
    return query, paginator, position


def _read(schema: Schema, raw_query: str) -> ListQuery:
    pieces, unknown = split(raw_query, schema.load_fields)
    parameters, errors = load(schema, pieces)
    filters = {
        name: value
        for name, value in parameters.items()
        if name not in (CURSOR_FIELD, PER_PAGE_FIELD)
    }
    before, after = _around_cursor(pieces)
    return ListQuery(
        MappingProxyType(parameters),
        tuple(errors),
        orjson.dumps(filters, option=orjson.OPT_SORT_KEYS),
        before,
        after,
        name_ignored(unknown),
    )


# Clients that poll repeat their query, and parsing it is a fifth of the work.
_read_again: Final = lru_cache(_READ_QUERIES)(_read)


def _around_cursor(pieces: list[Piece]) -> tuple[str, str]:
    before: list[str] = []
    after: list[str] = []
    target = before
    for piece in pieces:
        if piece.name == CURSOR_FIELD:
            target = after
        else:
            target.append(encode_raw(piece.raw))
    return "".join(f"{piece}&" for piece in before), "".join(f"&{piece}" for piece in after)
