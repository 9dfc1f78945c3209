"""Compiles response schemas into encoders, so that one declaration shapes every body. Pure.

`Schema.dump` looks each field up again for every object, which takes many times as long as reading
the row. Here the schema becomes the source of one function, as `dataclasses` does it: a dictionary
display over attributes. Tests compare its bytes with those of `Schema.dump`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import orjson
from marshmallow import Schema, fields

from service.schemas.fields import Figure, Fixed, Fragment, Moment, Ratio, Spelled

# Returns the JSON text of an object, as UTF-8.
Encoder = Callable[[Any], bytes]

# Fields that orjson encodes as marshmallow does: enumerations by value, UUIDs, moments with `Z`.
# A subclass may dump differently, so only these exact types count.
_SAME_ENCODING: Final = frozenset(
    {
        fields.Boolean,
        fields.Integer,
        fields.Float,
        fields.String,
        fields.UUID,
        Figure,
        Moment,
        Ratio,
    }
)
_GLOBALS: Final = {"Fragment": orjson.Fragment, "dumps": orjson.dumps, "OPTION": orjson.OPT_UTC_Z}


def compile_encoder(schema: type[Schema], *, without: Collection[str] = ()) -> Encoder:
    """Return the encoder of a schema, for objects that have its fields as attributes.

    `without` names optional fields that the objects do not have; a dot leads into a nested field.

    Raises:
        TypeError: the schema has a field of an unsupported type.
    """
    source = (
        f"lambda value: dumps({_object(schema(exclude=tuple(without)), 'value', 0)}, option=OPTION)"
    )
    # The source contains only names from this project's own schemas, and nothing from requests.
    encoder: Encoder = eval(source, dict(_GLOBALS))  # noqa: S307
    return encoder


def _object(schema: Schema, owner: str, depth: int) -> str:
    """Return the expression that shapes the object in the variable `owner`."""
    members = (
        f"{field.data_key or name!r}: {_value(field, f'{owner}.{field.attribute or name}', depth)}"
        for name, field in schema.dump_fields.items()
    )
    return f"{{{', '.join(members)}}}"


def _value(field: fields.Field[Any], path: str, depth: int) -> str:
    """Return the expression that makes the value at that path ready for orjson."""
    inner = f"item{depth}"
    match field:
        case Spelled():
            return f"str({path})"
        case Fixed(value=value):
            return repr(value)
        case Fragment():
            return f"Fragment({path})"
        case fields.Nested():
            shape = _object(field.schema, inner, depth + 1)
            return f"None if ({inner} := {path}) is None else {shape}"
        case fields.List(inner=fields.Nested(schema=schema)):
            return f"[{_object(schema, inner, depth + 1)} for {inner} in {path}]"
        case fields.List(inner=element):
            return f"[{_value(element, inner, depth + 1)} for {inner} in {path}]"
        case _ if type(field) in _SAME_ENCODING:
            return path
    raise TypeError(f"{type(field).__name__} cannot be compiled")
