"""Declares an event type: its name, its outcome, and the schemas of its metadata and envelope."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from marshmallow import Schema, fields

from indexing.events.envelope import Envelope
from indexing.events.fields import Member, OneOf, Part
from indexing.events.outcomes import OutcomeRule
from indexing.events.schema import OpenSchema


class EventType:
    """One type of event. Its schemas are built when they are first used, because few callers do.

    The class names derive from the type and are valid OpenAPI component names:
    `action.queue.checks_end` has `ActionQueueChecksEndMetadata` and `ActionQueueChecksEndEvent`.
    """

    def __init__(self, name: str, outcome: OutcomeRule, members: Mapping[str, Member]) -> None:
        self.name: Final = name
        self.outcome: Final = outcome
        self._members = members
        self._stem = "".join(word.capitalize() for word in name.replace(".", "_").split("_"))

    @cached_property
    def metadata(self) -> type[Schema]:
        """The schema of its metadata."""
        return OpenSchema.from_dict(dict(self._members), name=f"{self._stem}Metadata")

    @cached_property
    def envelope(self) -> type[Schema]:
        """The schema of the whole event."""
        members: dict[str, fields.Field[Any]] = {
            "type": OneOf(self.name),
            "metadata": Part(self.metadata),
        }
        return Envelope.from_dict(members, name=f"{self._stem}Event")


def declare(event_type: str, outcome: OutcomeRule, /, **members: Member) -> EventType:
    """Declare the event type of that name; its metadata has these members, in this order."""
    return EventType(event_type, outcome, members)
