"""The schemas of JSON request bodies. Pure."""

from __future__ import annotations

from marshmallow import EXCLUDE, Schema
from marshmallow.validate import Length

from indexing.models.quarantines import MAX_OWNER_LENGTH, MAX_REASON_LENGTH
from indexing.names import STORED_NAME_MAX_BYTES, check_stored_name, check_text
from indexing.timestamps import parse_timestamp
from service.schemas.limits import MAX_VALUE_LENGTH, check_stored_glob
from service.schemas.parsed import Parsed


def _length(most: int) -> Length:
    return Length(1, most, error=f"must have 1 to {most:,} characters")


class QuarantineBody(Schema):
    """A test to quarantine. Unknown members are ignored, as a newer client may send some."""

    class Meta:
        unknown = EXCLUDE

    test_name = Parsed(
        check_stored_name,
        required=True,
        metadata={
            "description": "The full name of the test.",
            "minLength": 1,
            # In UTF-8; a character has at least one byte.
            "maxLength": STORED_NAME_MAX_BYTES,
        },
    )
    reason = Parsed(
        check_text,
        required=True,
        validate=_length(MAX_REASON_LENGTH),
    )
    branch = Parsed(
        check_stored_glob,
        load_default=None,
        allow_none=True,
        metadata={
            "description": "A branch, or a pattern with * and ?; all branches without it.",
            "minLength": 1,
            "maxLength": MAX_VALUE_LENGTH,
        },
    )
    owner = Parsed(
        check_text,
        load_default=None,
        allow_none=True,
        validate=_length(MAX_OWNER_LENGTH),
        metadata={"description": "Who is responsible for fixing the test."},
    )
    expires_at = Parsed(
        parse_timestamp,
        load_default=None,
        allow_none=True,
        error_messages={"invalid": "must be an RFC 3339 timestamp"},
        metadata={
            "format": "date-time",
            "description": "When it ends; never without it.",
        },
    )
