"""The operations of the API, by the names that scopes, cursors and metrics use. Pure."""

from __future__ import annotations

from enum import Enum


class Operation(Enum):
    """An operation of the API: first the reads, then the writes."""

    EVENTS = "events"
    EVENT_AGGREGATE = "event-aggregate"
    EVENT_STREAM = "event-stream"
    SEARCH = "search"
    TEST = "test"
    QUARANTINES = "quarantines"
    QUARANTINE = "quarantine"
    TEST_STATES = "test-states"
    EXECUTIONS = "executions"
    FAILURES = "failures"
    FAILURE = "failure"
    RUNS = "runs"
    TEST_HEALTH = "test-health"
    STATS = "stats"
    TEST_STATS = "test-stats"
    GROUPS = "test-groups"
    TRANSITIONS = "health-transitions"
    TEST_TRANSITIONS = "test-health-transitions"
    QUARANTINE_CHANGES = "quarantine-changes"
    REPOSITORIES = "repositories"
    SEND_EVENTS = "send-events"
    SEND_TRACES = "send-traces"
    ADD_QUARANTINE = "add-quarantine"
    REMOVE_QUARANTINE = "remove-quarantine"
