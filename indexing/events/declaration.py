"""Declares one event type: its name, and the schemas of its metadata and its envelope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marshmallow import Schema, fields

from indexing.events.envelope import Envelope
from indexing.events.fields import OneOf, Part
from indexing.events.schema import OpenSchema


@dataclass(frozen=True, slots=True)
class EventType:
    """One type of event.

    The class names derive from the type and are valid OpenAPI component names:
    `action.queue.checks_end` has `ActionQueueChecksEndMetadata` and `ActionQueueChecksEndEvent`.
    """

    name: str
    metadata: type[Schema]
    envelope: type[Schema]


def declare(event_type: str, /, **members: fields.Field[Any]) -> EventType:
    """Declare the event type of that name; its metadata has these members, in this order."""
    stem = "".join(word.capitalize() for word in event_type.replace(".", "_").split("_"))
    metadata = OpenSchema.from_dict(members, name=f"{stem}Metadata")
    envelope = Envelope.from_dict(
        {"type": OneOf(event_type), "metadata": Part(metadata)}, name=f"{stem}Event"
    )
    return EventType(event_type, metadata, envelope)
