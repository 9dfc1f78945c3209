"""The JSON bodies of requests, as their schemas. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from marshmallow import EXCLUDE, Schema, ValidationError, fields
from marshmallow.validate import Length

from indexing.errors import InvalidValueError
from indexing.globs import count_cost
from indexing.names import check_stored_name, check_text
from indexing.timestamps import parse_timestamp
from service.schemas.limits import MAX_GLOB_COST, MAX_STARS, MAX_VALUE_LENGTH

MAX_REASON_LENGTH: Final = 1_000
MAX_OWNER_LENGTH: Final = 255


class _StoredName(fields.String):
    """A name as it is stored; error messages name no type of marshmallow."""

    def _deserialize(self, value: Any, *rest: Any, **options: Any) -> Any:
        text = super()._deserialize(value, *rest, **options)
        try:
            return check_stored_name(text)
        except InvalidValueError as error:
            raise ValidationError(str(error)) from error


class _Branch(_StoredName):
    """A branch or a glob, within the limits of patterns in queries."""

    def _deserialize(self, value: Any, *rest: Any, **options: Any) -> Any:
        pattern: str = super()._deserialize(value, *rest, **options)
        if len(pattern) > MAX_VALUE_LENGTH:
            raise ValidationError(f"must have at most {MAX_VALUE_LENGTH} characters")
        if pattern.count("*") > MAX_STARS or count_cost(pattern) > MAX_GLOB_COST:
            raise ValidationError(f"must have at most {MAX_STARS} '*' and fewer other wildcards")
        return pattern


class _Text(fields.String):
    """Text that both stores can hold."""

    def _deserialize(self, value: Any, *rest: Any, **options: Any) -> Any:
        text = super()._deserialize(value, *rest, **options)
        try:
            return check_text(text)
        except InvalidValueError as error:
            raise ValidationError(str(error)) from error


class _Moment(fields.Field[datetime]):
    """An RFC 3339 timestamp."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> datetime:
        if not isinstance(value, str):
            raise ValidationError("must be an RFC 3339 timestamp")
        try:
            return parse_timestamp(value)
        except InvalidValueError as error:
            raise ValidationError(str(error)) from error


class QuarantineBody(Schema):
    """A test to quarantine. Unknown members are ignored, as a newer client may send some."""

    class Meta:
        unknown = EXCLUDE

    test_name = _StoredName(
        required=True, metadata={"description": "The full name of the test.", "minLength": 1}
    )
    reason = _Text(
        required=True,
        validate=Length(1, MAX_REASON_LENGTH),
    )
    branch = _Branch(
        load_default=None,
        allow_none=True,
        metadata={"description": "A branch, or a pattern with * and ?; all branches without it."},
    )
    owner = _Text(
        load_default=None,
        allow_none=True,
        validate=Length(1, MAX_OWNER_LENGTH),
        metadata={"description": "Who is responsible for fixing the test."},
    )
    expires_at = _Moment(
        load_default=None,
        allow_none=True,
        metadata={
            "type": "string",
            "format": "date-time",
            "description": "When it ends; never without it.",
        },
    )
