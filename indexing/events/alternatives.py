"""Fields whose value may have one of several shapes; the value itself shows which.

`options` lists the shapes for the OpenAPI generator, which writes them as `anyOf`. `oneOf` would be
wrong: objects may have unknown members, so an object also fits every shape with fewer members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError

from indexing.events.fields import Member, Strict
from indexing.events.schema import Reader


class Alternatives(Strict):
    """A field whose value must fit one of `options`."""

    def __init__(self, *options: Member, **settings: Any) -> None:
        super().__init__(**settings)
        self.options = options

    def choose(self, value: Any) -> Member:
        """Return the option for `value`; raise `ValidationError` if there is none."""
        raise NotImplementedError

    def read(self, value: Any) -> Any:
        return self.choose(value).deserialize(value)

    def _type_reader(self) -> Reader:
        readers = {option: option.reader() for option in self.options}
        return lambda value: readers[self.choose(value)](value)


class ByType(Alternatives):
    """Selects the shape by the JSON type of the value; error messages contain `expected`."""

    def __init__(self, expected: str, options: Mapping[type, Member], **settings: Any) -> None:
        super().__init__(*options.values(), **settings)
        self._by_type = options
        self._expected = expected

    def choose(self, value: Any) -> Member:
        option = self._by_type.get(type(value))
        if option is None:
            raise ValidationError(f"must be {self._expected}")
        return option


class ByMember(Alternatives):
    """Selects the shape by a string member of an object; the key `None` is for its absence."""

    def __init__(self, member: str, options: Mapping[str | None, Member], **settings: Any) -> None:
        super().__init__(*options.values(), **settings)
        self._by_value = options
        self._member = member

    def choose(self, value: Any) -> Member:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        if self._member not in value:
            return self._by_value[None]
        named = value[self._member]
        option = self._by_value.get(named) if isinstance(named, str) else None
        if option is None:
            known = " or ".join(sorted(name for name in self._by_value if name is not None))
            raise ValidationError({self._member: [f"must be {known} where it is present"]})
        return option
