"""From a raw query string to checked values. Pure: knows no operation, no request and no store.

webargs is left out on purpose: all that would be left of it here is a loader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from marshmallow import Schema, ValidationError, fields

from indexing.errors import InvalidValueError
from indexing.names import check_text
from service.field_errors import FieldError

CURSOR_FIELD: Final = "cursor"
PER_PAGE_FIELD: Final = "per_page"

_NOT_URI: Final = re.compile(r"[^!$&'()*+,\-./0-9:;=?@A-Z_a-z~%]")


@dataclass(frozen=True, slots=True)
class Piece:
    """One `name=value` of a query string, as it was sent; `name` is decoded where it can be."""

    name: str
    raw_value: str
    raw: str


def split(raw_query: str) -> Iterator[Piece]:
    """Take a raw query string apart, in its order."""
    for raw in raw_query.split("&"):
        if raw:
            name, _, value = raw.partition("=")
            # A name that is no UTF-8 is an unknown one: no known one has a replacement in it.
            yield Piece(_bytes(name).decode("utf-8", "replace"), value, raw)


def load(schema: Schema, raw_query: str) -> tuple[dict[str, Any], list[FieldError]]:
    """Read the parameters that the schema knows; others are ignored, as newer clients send them.

    A list takes every value of its name, any other field exactly one. Gives the values of the
    fields that are right, with the defaults of those that are absent, and what is wrong in the
    others, by name.
    """
    values: dict[str, list[str]] = {}
    errors: dict[str, FieldError] = {}
    for piece in split(raw_query):
        if piece.name not in schema.load_fields:
            continue
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
        return check_text(_bytes(raw_value).decode())
    except UnicodeDecodeError as error:
        raise InvalidValueError("must be percent-encoded UTF-8") from error


def encode_raw(raw: str) -> str:
    """Make what was sent safe to be sent back within a URL; what is encoded stays as it is."""
    return _NOT_URI.sub(lambda found: "".join(f"%{byte:02X}" for byte in _raw_bytes(found[0])), raw)


def _bytes(raw: str) -> bytes:
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
