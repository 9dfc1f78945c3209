"""Declares the events of manual control of the queue: commands, pauses and scheduled freezes."""

from __future__ import annotations

from typing import Final

from indexing.events.conditions import ConditionSet
from indexing.events.declaration import declare
from indexing.events.fields import Integer, Part, Text, Timestamp, Uuid
from indexing.events.outcomes import NEUTRAL
from indexing.events.people import Actor, HostAccount
from indexing.events.schema import OpenSchema


class ScheduledFreezeEventLogAttributes(OpenSchema):
    """The state of a scheduled freeze when the event was written."""

    reason = Text()
    start = Timestamp()
    end = Timestamp(allow_none=True)
    timezone = Text()
    matching_conditions = ConditionSet()
    exclude_conditions = ConditionSet()


COMMAND_EVENTS: Final = (
    declare(
        "command.dequeue",
        NEUTRAL,
        author=Part(HostAccount),
        comment_id=Integer(),
        session_id=Uuid(allow_none=True),
    ),
    declare(
        "command.queue",
        NEUTRAL,
        author=Part(HostAccount),
        comment_id=Integer(),
        session_id=Uuid(allow_none=True),
    ),
)

PAUSE_EVENTS: Final = (
    declare("queue.pause.create", NEUTRAL, reason=Text(), created_by=Part(Actor)),
    declare("queue.pause.update", NEUTRAL, reason=Text(), updated_by=Part(Actor)),
    declare("queue.pause.delete", NEUTRAL, deleted_by=Part(Actor)),
)

FREEZE_EVENTS: Final = (
    declare(
        "scheduled_freeze.create",
        NEUTRAL,
        scheduled_freeze_attributes=Part(ScheduledFreezeEventLogAttributes),
        created_by=Part(Actor),
        created_at=Timestamp(),
    ),
    declare(
        "scheduled_freeze.update",
        NEUTRAL,
        scheduled_freeze_attributes_before=Part(ScheduledFreezeEventLogAttributes),
        scheduled_freeze_attributes_after=Part(ScheduledFreezeEventLogAttributes),
        updated_by=Part(Actor),
        updated_at=Timestamp(),
    ),
    declare(
        "scheduled_freeze.delete",
        NEUTRAL,
        scheduled_freeze_attributes=Part(ScheduledFreezeEventLogAttributes),
        reason=Text(),
        deleted_by=Part(Actor),
        deleted_at=Timestamp(),
    ),
)
