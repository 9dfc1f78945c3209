"""Fields of response schemas that marshmallow does not have. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

import orjson
from marshmallow import fields
from marshmallow.validate import OneOf, Range

from indexing.timestamps import format_timestamp


def text(**options: Any) -> fields.String:
    """Return a string field that is always present, possibly null."""
    return fields.String(required=True, **options)


def one_of(values: type[Enum], **options: Any) -> fields.String:
    """Return a string field that is always present, with one of the values of an enumeration."""
    return text(validate=OneOf([each.value for each in values]), **options)


class Spelled(fields.String):
    """A value that is shown as its text, such as the name of a repository."""


class Moment(fields.DateTime):
    """A moment as RFC 3339 text in UTC."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": True} | options)

    def _serialize(self, value: datetime | None, *_: Any, **__: Any) -> str | None:
        return None if value is None else format_timestamp(value)


class Ratio(fields.Float):
    """A number from 0 to 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=True, validate=Range(0, 1), **options)


class Figure(fields.Float):
    """An integer or a float, which keeps its type, or null."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=True, allow_none=True, **options)

    def _serialize(self, value: float | None, *_: Any, **__: Any) -> float | None:
        return value


class Fixed(fields.String):
    """A text that is the same in all objects, which need no attribute for it."""

    _CHECK_ATTRIBUTE = False

    def __init__(self, value: str) -> None:
        super().__init__(required=True, validate=OneOf([value]))
        self.value = value

    def _serialize(self, *_: Any, **__: Any) -> str:
        return self.value


class Fragment(fields.Field[Any]):
    """JSON text as it is stored; `component` names its schema in the OpenAPI document."""

    def __init__(self, component: str, **options: Any) -> None:
        super().__init__(required=True, **options)
        self.component = component

    def _serialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return orjson.loads(value)
