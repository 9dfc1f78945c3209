"""The base of every schema in the catalogue: unknown members pass through unchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, Protocol, cast

from marshmallow import EXCLUDE, Schema, ValidationError, post_load, validates_schema

from indexing.events.json_text import in_canonical_order

# Returns a value in its stored form, or raises `ValidationError`.
Reader = Callable[[Any], Any]

_MESSAGES: Final = {"type": "must be an object"}


class ReadableField(Protocol):
    """What `OpenSchema.read` needs of a field."""

    required: bool
    attribute: str | None
    data_key: str | None

    def reader(self) -> Reader: ...


class OpenSchema(Schema):
    """Loads declared members in their declared order, then unknown members, sorted by name.

    Newer producers add members, which must not get lost here. marshmallow's own `INCLUDE` would
    return them in the order of a set, which differs from process to process.

    `load` collects all errors and where they are. `read` returns the same for valid objects in an
    eighth of the time, and stops at the first error. Both read values by the same fields.
    """

    class Meta:
        unknown = EXCLUDE

    error_messages = _MESSAGES

    def read(self, value: Any) -> dict[str, Any]:
        """Return what `load` returns for a valid object.

        Raises:
            ValidationError: the object is not valid; the message lacks the path.
        """
        if not isinstance(value, dict):
            raise ValidationError(_MESSAGES["type"])
        data: dict[str, Any] = {}
        for key, name, required, read in self._readers:
            if key in value:
                data[name] = read(value[key])
            elif required:
                raise ValidationError("is missing")
        self.check_members(data)
        return _with_extras(data, value)

    def check_members(self, data: dict[str, Any]) -> None:
        """Check what concerns several members; `data` holds them in their stored form.

        Raises:
            ValidationError: they do not fit together.
        """

    @validates_schema
    def _check(self, data: dict[str, Any], **_: Any) -> None:
        self.check_members(data)

    @post_load(pass_original=True)
    def keep_extras(
        self, data: dict[str, Any], original: dict[str, Any], **_: Any
    ) -> dict[str, Any]:
        return _with_extras(data, original)

    @cached_property
    def _readers(self) -> list[tuple[str, str, bool, Reader]]:
        """The key, the stored name, whether it is required, and the reader of each member."""
        found = []
        for name, declared in self.load_fields.items():
            field = cast(ReadableField, declared)
            found.append(
                (
                    name if field.data_key is None else field.data_key,
                    field.attribute or name,
                    field.required,
                    field.reader(),
                )
            )
        return found


def _with_extras(data: dict[str, Any], original: dict[str, Any]) -> dict[str, Any]:
    """Add the members of `original` that no field declares."""
    if len(original) > len(data):
        for name in sorted(original.keys() - data.keys()):
            data[name] = in_canonical_order(original[name])
    return data
