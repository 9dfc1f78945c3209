"""The members that every event has, whatever its type."""

from __future__ import annotations

from typing import Final

from marshmallow import validate

from indexing.events.fields import Integer, JsonObject, Repository, Text, Timestamp
from indexing.events.schema import OpenSchema
from indexing.identifiers import MAX_INTEGER

_NUMBER: Final = validate.Range(min=0, max=MAX_INTEGER, error="must be from {min} to {max}")


class Envelope(OpenSchema):
    """An event of any type; the envelope of each type restricts the last two members."""

    id = Integer(validate=_NUMBER)
    received_at = Timestamp()
    trigger = Text()
    repository = Repository()
    pull_request = Integer(validate=_NUMBER, allow_none=True)
    base_ref = Text(allow_none=True)
    type = Text()
    metadata = JsonObject()
