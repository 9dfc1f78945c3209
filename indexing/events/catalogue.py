"""All event types by name, in the order of the API; a module for each family declares them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from indexing.events.actions import ACTION_EVENTS
from indexing.events.ci_insights import CI_INSIGHTS_EVENTS
from indexing.events.declaration import EventType
from indexing.events.queue import QUEUE_EVENTS
from indexing.events.steering import COMMAND_EVENTS, FREEZE_EVENTS, PAUSE_EVENTS

CATALOGUE: Final[Mapping[str, EventType]] = MappingProxyType(
    {
        declared.name: declared
        for family in (
            ACTION_EVENTS,
            QUEUE_EVENTS,
            COMMAND_EVENTS,
            PAUSE_EVENTS,
            FREEZE_EVENTS,
            CI_INSIGHTS_EVENTS,
        )
        for declared in family
    }
)

EVENT_TYPES: Final[tuple[str, ...]] = tuple(CATALOGUE)
