"""A request field whose text a parser of `indexing` reads. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marshmallow import ValidationError, fields

from indexing.errors import InvalidValueError


class Parsed(fields.String):
    """A string that `parse` loads; the text of its `InvalidValueError` is the error message."""

    def __init__(self, parse: Callable[[str], Any], **options: Any) -> None:
        super().__init__(**options)
        self._parse = parse

    def _deserialize(self, value: Any, *rest: Any, **options: Any) -> Any:
        text: str = super()._deserialize(value, *rest, **options)
        try:
            return self._parse(text)
        except InvalidValueError as error:
            raise ValidationError(str(error)) from error
