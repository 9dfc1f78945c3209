"""The schemas of merge queue checks, and of the speculative pull requests that they run on."""

from __future__ import annotations

from indexing.events.fields import Boolean, Integer, Integers, OneOf, Parts, Text, Timestamp, Uuid
from indexing.events.schema import OpenSchema


class QueueCheck(OpenSchema):
    """The state of one check when the event was written."""

    name = Text()
    description = Text()
    url = Text(allow_none=True)
    details_url = Text(required=False, allow_none=True)
    state = OneOf(
        "failure",
        "error",
        "cancelled",
        "action_required",
        "timed_out",
        "pending",
        "neutral",
        "skipped",
        "stale",
        "success",
    )
    avatar_url = Text(allow_none=True)
    pull_request_head_sha = Text()


class SpeculativeCheckPullRequest(OpenSchema):
    """The pull request that a batch is checked on: a real one, or one created for the check."""

    number = Integer()
    in_place = Boolean()
    checks_timed_out = Boolean()
    checks_conclusion = OneOf(
        "success",
        "failure",
        "neutral",
        "cancelled",
        "skipped",
        "stale",
        "action_required",
        "timed_out",
        "error",
        "pending",
    )
    checks_started_at = Timestamp(allow_none=True)
    checks_ended_at = Timestamp(allow_none=True)
    unsuccessful_checks = Parts(QueueCheck)
    pull_request_numbers = Integers()
    train_car_id = Uuid(allow_none=True)
