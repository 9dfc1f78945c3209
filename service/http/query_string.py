"""From a raw query string to checked values. Pure: knows no operation, no request and no store.

webargs is left out on purpose: all that would be left of it here is a loader.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from marshmallow import Schema, ValidationError, fields

from indexing.errors import InvalidValueError
from indexing.names import check_text
from service.http.field_errors import FieldError

CURSOR_FIELD: Final = "cursor"
PER_PAGE_FIELD: Final = "per_page"
# What an answer has besides; it changes no list.
INCLUDE_FIELD: Final = "include"

# Parameters that an operation does not have are listed in a header, never refused.
IGNORED_HEADER: Final = "X-Ignored-Parameters"
# Enough to find a mistake; the header must not exceed what clients accept.
MAX_NAMES: Final = 16
MAX_NAME_LENGTH: Final = 64
# In place of the names that are left out. No name looks like this: `*` is percent-encoded.
MORE: Final = "*"

_NOT_URI: Final = re.compile(r"[^!$&'()*+,\-./0-9:;=?@A-Z_a-z~%]")


class Piece(NamedTuple):
    """One `name=value` of a query string, as it was sent; `name` is decoded."""

    name: str
    raw_value: str
    raw: str


def split(raw_query: str, known: Collection[str]) -> tuple[list[Piece], set[str]]:
    """Take a raw query string apart: the known parameters in their order, and other raw names.

    A client may repeat an unknown parameter thousands of times: each costs a look-up, no more.
    """
    pieces: list[Piece] = []
    unknown: set[str] = set()
    for raw in raw_query.split("&"):
        name, _, value = raw.partition("=")
        if name in unknown:
            continue
        if name not in known:
            # No known name has a replacement character in it.
            decoded = unquote(name).decode("utf-8", "replace")
            if decoded not in known:
                unknown.add(name)
                continue
            name = decoded
        pieces.append(Piece(name, value, raw))
    return pieces, unknown


def load(schema: Schema, pieces: Iterable[Piece]) -> tuple[dict[str, Any], list[FieldError]]:
    """Read the parameters of a schema.

    A list takes every value of its name, any other field exactly one. Gives the values of the
    fields that are right, with the defaults of those that are absent, and what is wrong in the
    others, by name.
    """
    values: dict[str, list[str]] = {}
    errors: dict[str, FieldError] = {}
    for piece in pieces:
        texts = values.setdefault(piece.name, [])
        try:
            texts.append(decode(piece.raw_value))
        except InvalidValueError as error:
            errors[piece.name] = FieldError("query", piece.name, str(error))
    arranged: dict[str, object] = {}
    for name, texts in values.items():
        if isinstance(schema.load_fields[name], fields.List):
            arranged[name] = texts
        elif len(texts) > 1:
            errors.setdefault(name, FieldError("query", name, "must be given once"))
        elif name not in errors:
            arranged[name] = texts[0]
    try:
        loaded = schema.load(arranged)
    except ValidationError as error:
        loaded = error.valid_data
        for found in _field_errors(error):
            errors.setdefault(found.field, found)
    return loaded, [errors[name] for name in sorted(errors)]


def decode(raw_value: str) -> str:
    """Decode one value of a query string.

    Raises:
        InvalidValueError: it is not UTF-8, or holds what no store takes.
    """
    try:
        return check_text(unquote(raw_value).decode())
    except UnicodeDecodeError as error:
        raise InvalidValueError("must be percent-encoded UTF-8") from error


def encode_raw(raw: str) -> str:
    """Make what was sent safe to be sent back within a URL; what is encoded stays as it is."""
    return _NOT_URI.sub(lambda found: "".join(f"%{byte:02X}" for byte in _raw_bytes(found[0])), raw)


def name_ignored(raw_names: Collection[str]) -> str | None:
    """The value of the header for these raw names; `None` where there is nothing to tell.

    Clients send newer parameters to older services. The header tells them which ones had no effect.
    Sorted and without repeats. All but letters, digits and `-._~` is percent-encoded.
    """
    named: set[str] = set()
    more = False
    for raw_name in sorted(raw_names):
        name = quote_from_bytes(unquote(raw_name), safe="")
        if not name or name in named:
            continue
        if len(name) > MAX_NAME_LENGTH:
            more = True
        elif len(named) == MAX_NAMES:
            more = True
            break
        else:
            named.add(name)
    return ", ".join([*sorted(named), *([MORE] if more else [])]) or None


def unquote(raw: str) -> bytes:
    """The bytes of a raw name or value."""
    return unquote_to_bytes(_raw_bytes(raw.replace("+", " ")))


def _raw_bytes(raw: str) -> bytes:
    # The HTTP parser keeps bytes that are not UTF-8 as surrogates.
    return raw.encode("utf-8", "surrogateescape")


def _field_errors(error: ValidationError) -> Iterator[FieldError]:
    for name, found in error.messages_dict.items():
        if isinstance(found, dict):
            for index, messages in found.items():
                detail = f"value {int(index) + 1}: {' '.join(messages)}"
                yield FieldError("query", str(name), detail)
        else:
            yield FieldError("query", str(name), " ".join(found))
