"""The fields of responses. A test compares them with the OpenAPI document of the service.

Times are RFC 3339 text in UTC, ids are UUIDs as text, ratios go from 0 to 1.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class PullUser(TypedDict):
    id: int
    login: str


class Pull(TypedDict):
    id: int
    number: int
    title: str
    user: PullUser


class TestIdentity(TypedDict):
    """One test in one pipeline and job."""

    test_id: str
    test_name: str
    pipeline_name: str
    job_name: str


class TestDetail(TypedDict):
    repository: str
    test_name: str
    test_id: str
    health_status: Literal["healthy", "flaky", "broken", "unknown"]
    last_conclusion: Literal["passed", "failed", "skipped", "unknown"]
    failure_ratio: float
    flakiness_ratio: float
    success_ratio: float
    flaky_detection_enabled: bool
    first_failure_at: str | None
    first_failure_commit: str | None
    first_failure_pull: Pull | None
    last_failure_at: str | None
    last_success_at: str | None
    test_framework: str | None
    test_framework_version: str | None
    test_programming_language: str | None
    test_filepath: str | None
    test_function_name: str | None


class Quarantine(TypedDict):
    id: str
    test_name: str
    reason: str
    branch: str | None
    created_at: str
    source: Literal["manual", "auto"]
    is_recovered: bool


class AddedQuarantine(TypedDict):
    """`warning` is there if the service knows no result of the test."""

    id: str
    warning: NotRequired[str]


class ChangeActor(TypedDict):
    type: Literal["key", "user", "rules"]
    id: str | None
    name: str


class QuarantineChange(TypedDict):
    """A change of a quarantine, with its values since then; nobody is the actor of an expiry."""

    at: str
    action: Literal["added", "updated", "removed", "expired", "taken_back"]
    quarantine_id: str
    test_name: str
    branch: str | None
    reason: str
    source: Literal["manual", "auto"]
    actor: ChangeActor | None


class Event(TypedDict):
    """One row of the event log; the fields of `metadata` depend on `type`."""

    id: int
    received_at: str
    trigger: str
    repository: str
    pull_request: int | None
    base_ref: str | None
    type: str
    metadata: dict[str, Any]


class LineRefusal(TypedDict):
    """One line of a sent body that was not stored, by number (from 1) and byte offset."""

    line: int
    offset: int
    reason: str


class EventIntake(TypedDict):
    """What became of the events of one body; only the first refusals are listed."""

    read: int
    written: int
    unchanged: int
    refused: int
    refusals: list[LineRefusal]
