"""The operations of the API, as scopes, cursors and metrics name them. Pure."""

from __future__ import annotations

from enum import Enum


class Operation(Enum):
    """Five reads, then the writes."""

    EVENTS = "events"
    SEARCH = "search"
    TEST = "test"
    QUARANTINES = "quarantines"
    QUARANTINE = "quarantine"
    SEND_EVENTS = "send-events"
    SEND_TRACES = "send-traces"
