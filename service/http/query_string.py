"""Reads checked values from a raw query string. Pure: knows no operation, request or store.

webargs is not used on purpose: it would only add a loader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from marshmallow import ValidationError, fields, missing

from indexing.errors import InvalidValueError
from indexing.names import check_text
from service.http.field_errors import FieldError
from service.schemas.query import Query

CURSOR_FIELD: Final = "cursor"
PER_PAGE_FIELD: Final = "per_page"
# Names optional parts of a response; it does not change which rows a list has.
INCLUDE_FIELD: Final = "include"

# Parameters that an operation does not have are listed in a header, never refused.
IGNORED_HEADER: Final = "X-Ignored-Parameters"
# Limits of that header: enough to find a mistake, and no more than clients accept.
MAX_NAMES: Final = 16
MAX_NAME_LENGTH: Final = 64
# Stands for the names that are left out. It is not a name: `*` is percent-encoded in those.
MORE: Final = "*"

# More than the API has.
_SCHEMAS: Final = 64
# How many values of parameters are cached, and the length of the longest of them.
_READ_VALUES: Final = 4_096
_SHORT_VALUE: Final = 200

_ENCODED: Final = re.compile("[%+]")
# A percent sign that encodes nothing is one of them.
_NOT_URI: Final = re.compile(r"[^!$&'()*+,\-./0-9:;=?@A-Z_a-z~%]|%(?![0-9A-Fa-f]{2})")


# Returns the errors of valid parameters that depend on more than them, such as the time.
FindErrors = Callable[[Mapping[str, Any]], Collection[FieldError]]


def find_none(_parameters: Mapping[str, Any]) -> Collection[FieldError]:
    """Return no errors."""
    return ()


class Piece(NamedTuple):
    """One `name=value` of a query string, as it was sent; `name` is decoded."""

    name: str
    raw_value: str
    raw: str


def split(raw_query: str, known: Collection[str]) -> tuple[list[Piece], set[str]]:
    """Split a raw query string into its known parameters, in their order, and other raw names.

    A client may repeat an unknown parameter thousands of times: each repeat costs one look-up.
    """
    pieces: list[Piece] = []
    unknown: set[str] = set()
    for raw in raw_query.split("&"):
        name, _, value = raw.partition("=")
        if name in unknown:
            continue
        if name not in known:
            # No known name contains the replacement character.
            decoded = unquote(name).decode("utf-8", "replace")
            if decoded not in known:
                unknown.add(name)
                continue
            name = decoded
        pieces.append(Piece(name, value, raw))
    return pieces, unknown


def load(schema: Query, pieces: Iterable[Piece]) -> tuple[dict[str, Any], list[FieldError]]:
    """Read the parameters of a schema, as its own `load` does, in less time.

    A list field takes every value of its name, any other field exactly one. Return the values of
    the valid fields, with defaults for absent ones, and the errors of all others, sorted by name.
    """
    errors: dict[str, FieldError] = {}
    loaded: dict[str, Any] = {}
    given = _arrange(pieces)
    for name, raw_values in given.items():
        field = schema.load_fields[name]
        is_short = len(raw_values) == 1 and len(raw_values[0]) <= _SHORT_VALUE
        try:
            loaded[name] = (_read_again if is_short else _read)(field, tuple(raw_values))
        except InvalidValueError as error:
            errors[name] = FieldError("query", name, str(error))
        except ValidationError as error:
            errors |= _field_errors({name: error.messages})
            if error.valid_data:
                loaded[name] = error.valid_data
    absent = _describe_absent(schema)
    for name, detail in absent.required:
        if name not in given:
            errors[name] = FieldError("query", name, detail)
    if errors:
        loaded |= {name: value for name, value in absent.defaults.items() if name not in given}
    else:
        loaded = {**absent.defaults, **loaded}
    try:
        schema.check(loaded)
    except ValidationError as error:
        errors = _field_errors({error.field_name: error.messages}) | errors
    return loaded, [errors[name] for name in sorted(errors)]


def _arrange(pieces: Iterable[Piece]) -> dict[str, list[str]]:
    """Return the raw values by name."""
    arranged: dict[str, list[str]] = {}
    for name, raw_value, _ in pieces:
        arranged.setdefault(name, []).append(raw_value)
    return arranged


def _read(field: fields.Field[Any], raw_values: tuple[str, ...]) -> Any:
    """Return the value of a field.

    A client may repeat a parameter hundreds of times: nothing is decoded after its first error.

    Raises:
        InvalidValueError: a value cannot be decoded, or there are too many.
        ValidationError: as the field does.
    """
    if isinstance(field, fields.List):
        return field.deserialize([decode(each) for each in raw_values])
    text = decode(raw_values[0])
    if len(raw_values) > 1:
        raise InvalidValueError("must be given once")
    return field.deserialize(text)


# Most requests for a list differ from earlier ones in one parameter.
_read_again: Final = lru_cache(_READ_VALUES)(_read)


@dataclass(frozen=True, slots=True)
class _Absent:
    """What a schema says about absent parameters: the errors of some, the values of others."""

    required: tuple[tuple[str, str], ...]
    defaults: Mapping[str, Any]


@lru_cache(_SCHEMAS)
def _describe_absent(schema: Query) -> _Absent:
    defaults = {}
    for name, field in schema.load_fields.items():
        default = field.load_default
        if default is not missing:
            defaults[name] = default() if callable(default) else default
    required = (
        (name, str(field.error_messages["required"]))
        for name, field in schema.load_fields.items()
        if field.required
    )
    return _Absent(tuple(required), defaults)


def decode(raw_value: str) -> str:
    """Decode one value of a query string.

    Raises:
        InvalidValueError: it is not UTF-8, or contains characters that no store accepts.
    """
    if raw_value.isascii() and raw_value.isprintable() and not _ENCODED.search(raw_value):
        return raw_value
    try:
        return check_text(unquote(raw_value).decode())
    except UnicodeDecodeError as error:
        raise InvalidValueError("must be percent-encoded UTF-8") from error


def encode_raw(raw: str) -> str:
    """Percent-encode the characters that no URL may contain; keep what is encoded already."""
    return _NOT_URI.sub(lambda found: "".join(f"%{byte:02X}" for byte in _raw_bytes(found[0])), raw)


def name_ignored(raw_names: Collection[str]) -> str | None:
    """Return the value of the header for these raw names; `None` if it would be empty.

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
    """Return the bytes of a raw name or value."""
    return unquote_to_bytes(_raw_bytes(raw.replace("+", " ")))


def _raw_bytes(raw: str) -> bytes:
    # The HTTP parser keeps bytes that are not UTF-8 as surrogates.
    return raw.encode("utf-8", "surrogateescape")


def _field_errors(messages: Mapping[str, Any]) -> dict[str, FieldError]:
    """Return the errors by field; of several wrong values of one, the first is named."""
    errors: dict[str, FieldError] = {}
    for name, found in messages.items():
        if isinstance(found, dict):
            for index, of_value in found.items():
                detail = f"value {int(index) + 1}: {' '.join(of_value)}"
                errors.setdefault(name, FieldError("query", name, detail))
        else:
            errors[name] = FieldError("query", name, " ".join(found))
    return errors
