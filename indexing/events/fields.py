"""Strict fields of events: a value has the right type or is refused; nothing is coerced.

marshmallow's own fields accept `"5"` and `5.0` as integers and `1` as a boolean. Every field here
is required unless it says otherwise, because nearly every member of an event is required.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any, Final, cast

from marshmallow import Schema, ValidationError, fields, validate

from indexing.errors import InvalidValueError
from indexing.events.json_text import in_canonical_order
from indexing.events.schema import OpenSchema, Reader
from indexing.identifiers import UUID_PATTERN
from indexing.names import OWNER_MAX_LENGTH, OWNER_PATTERN, REPOSITORY_PATTERN, parse_repository
from indexing.timestamps import normalise_timestamp

_UUID: Final = re.compile(UUID_PATTERN)

_MESSAGES: Final[dict[str, str | list[Any] | dict[Any, Any]]] = {
    "required": "is missing",
    "null": "must not be null",
}


class Errors:
    """Counts the invalid array elements in one line of input, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.full = False
        self._left = limit

    def add(self) -> None:
        """Count one more invalid element."""
        self._left -= 1
        self.full = self._left <= 0


# The count for the line that is being validated.
current_errors: Final[ContextVar[Errors]] = ContextVar("current_errors")


class Member(fields.Field[Any]):
    """The base of all event fields: required by default, with uniform error messages.

    A field is read in one of two ways, with equal results. marshmallow collects all errors and
    where they are. `reader` stops at the first error, and takes a tenth of the time.
    """

    def __init__(self, *args: Any, required: bool = True, **options: Any) -> None:
        super().__init__(*args, required=required, error_messages=_MESSAGES, **options)

    def _validate(self, value: Any) -> None:
        # Most fields have no validators, and running an empty list of them takes a sixth of the
        # load.
        if self.validators:
            super()._validate(value)

    def reader(self) -> Reader:
        """Return a function that reads a value, and at the first error raises without a path."""
        read, validators, nullable = self._type_reader(), tuple(self.validators), self.allow_none
        if not validators and not nullable:
            return read

        def read_value(value: Any) -> Any:
            if value is None and nullable:
                return None
            value = read(value)
            for validator in validators:
                validator(value)
            return value

        return read_value

    def _type_reader(self) -> Reader:
        """Return a reader for values that are not null, before the validators run."""
        raise NotImplementedError


class Strict(Member):
    """A field whose value `read` validates without looking at the rest of the event."""

    def read(self, value: Any) -> Any:
        """Return the value in its stored form, or raise `ValidationError`."""
        raise NotImplementedError

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return self.read(value)

    def _type_reader(self) -> Reader:
        return self.read


class Text(Strict, fields.String):
    """Any string."""

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("must be a string")
        return value


class Integer(Strict, fields.Integer):
    """An integer of any size; booleans and numbers with a fraction are refused."""

    def read(self, value: Any) -> int:
        if type(value) is not int:
            raise ValidationError("must be an integer")
        return value


class Boolean(Strict, fields.Boolean):
    """`true` or `false`."""

    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("must be a boolean")
        return value


class OneOf(Text):
    """One of a fixed set of strings."""

    def __init__(self, *choices: str, **options: Any) -> None:
        expected = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
        super().__init__(validate=validate.OneOf(choices, error=f"must be {expected}"), **options)


class Timestamp(Text):
    """An RFC 3339 timestamp with a zone; stored as the same moment in UTC, written with `Z`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(metadata={"format": "date-time"}, **options)

    def read(self, value: Any) -> str:
        try:
            return normalise_timestamp(super().read(value))
        except InvalidValueError as error:
            raise ValidationError(str(error)) from error


class Uuid(Text):
    """A UUID of any version in its hyphenated form; its case is kept."""

    def __init__(self, **options: Any) -> None:
        super().__init__(metadata={"format": "uuid"}, **options)

    def read(self, value: Any) -> str:
        text = super().read(value)
        if not _UUID.fullmatch(text):
            raise ValidationError("must be a UUID in its hyphenated form")
        return text


class Repository(Text):
    """`owner/name`, both in the form that the interface requires."""

    def __init__(self, **options: Any) -> None:
        owner = OWNER_PATTERN.removesuffix("+") + f"{{1,{OWNER_MAX_LENGTH}}}"
        super().__init__(metadata={"pattern": f"^{owner}/{REPOSITORY_PATTERN}$"}, **options)

    def read(self, value: Any) -> str:
        try:
            return str(parse_repository(super().read(value)))
        except InvalidValueError as error:
            raise ValidationError(str(error)) from error


class JsonObject(Strict, fields.Dict):
    """Any JSON object; stored with sorted members, so that equal objects give equal text."""

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        ordered: dict[str, Any] = in_canonical_order(value)
        return ordered


class Part(Member, fields.Nested):
    """An object of the given schema, which is an `OpenSchema`."""

    def _type_reader(self) -> Reader:
        schema = cast(OpenSchema, self.schema)
        return schema.read


class Array(Member, fields.List[Any]):
    """An array whose elements all have the same field type.

    Reading stops once the line's `Errors` are full: an invalid element costs far more time than a
    valid one, and a hostile line has thousands.
    """

    def _deserialize(self, value: Any, *_: Any, **options: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValidationError("must be an array")
        found = current_errors.get()
        elements: list[Any] = []
        messages: dict[int, Any] = {}
        for index, element in enumerate(value):
            if found.full:
                break
            try:
                elements.append(self.inner.deserialize(element, **options))
            except ValidationError as error:
                found.add()
                messages[index] = error.messages
        if messages:
            raise ValidationError(dict(messages))
        return elements

    def _type_reader(self) -> Reader:
        read = cast(Member, self.inner).reader()

        def read_elements(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise ValidationError("must be an array")
            return [read(element) for element in value]

        return read_elements


class Strings(Array):
    """An array of strings."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Text(), **options)


class Integers(Array):
    """An array of integers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(Integer(), **options)


class Parts(Array):
    """An array of objects of one schema."""

    def __init__(self, schema: type[Schema], **options: Any) -> None:
        super().__init__(Part(schema), **options)
