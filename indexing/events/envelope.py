"""The members that every event has, whatever its type."""

from __future__ import annotations

from marshmallow import validate

from indexing.events.fields import Integer, JsonObject, Repository, Text, Timestamp
from indexing.events.schema import OpenSchema
from indexing.identifiers import MAX_INTEGER


def _up_to(limit: int) -> validate.Range:
    return validate.Range(min=0, max=limit, error="must be from {min} to {max}")


class Envelope(OpenSchema):
    """An event of any type; the envelope of each type restricts the last two members."""

    id = Integer(validate=_up_to(MAX_INTEGER))
    received_at = Timestamp()
    trigger = Text()
    repository = Repository()
    pull_request = Integer(validate=_up_to(MAX_INTEGER), allow_none=True)
    base_ref = Text(allow_none=True)
    type = Text()
    metadata = JsonObject()
