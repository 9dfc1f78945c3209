"""A request field whose text a parser of `indexing` reads. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from marshmallow import ValidationError, fields

from indexing.errors import InvalidValueError

# Those of marshmallow are whole sentences.
REQUIRED: Final = {"required": "is required"}
_MESSAGES: Final = {**REQUIRED, "null": "must not be null", "invalid": "must be text"}


class Parsed(fields.String):
    """A string that `parse` loads; the text of its `InvalidValueError` is the error message."""

    def __init__(self, parse: Callable[[str], Any], **options: Any) -> None:
        messages = {**_MESSAGES, **options.pop("error_messages", {})}
        super().__init__(error_messages=messages, **options)
        self._parse = parse

    def _deserialize(self, value: Any, *rest: Any, **options: Any) -> Any:
        text: str = super()._deserialize(value, *rest, **options)
        try:
            return self._parse(text)
        except InvalidValueError as error:
            raise ValidationError(str(error)) from error
