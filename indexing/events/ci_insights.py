"""Declares the events of CI insights: settings of auto-quarantine, and retried jobs."""

from __future__ import annotations

from typing import Final

from indexing.events.conditions import ConditionMatch
from indexing.events.declaration import declare
from indexing.events.fields import Array, Boolean, Integer, OneOf, Part, Text, Timestamp, Uuid
from indexing.events.outcomes import FAILURE, NEUTRAL, SUCCESS, By
from indexing.events.people import Actor
from indexing.events.schema import OpenSchema


class AutoQuarantineConfigEventLogAttributes(OpenSchema):
    """The settings of auto-quarantine when the event was written."""

    ignore_broken_on_default_branch = Boolean()


CI_INSIGHTS_EVENTS: Final = (
    declare(
        "ci_insights.auto_quarantine.enabled",
        NEUTRAL,
        enabled_by=Part(Actor),
        enabled_at=Timestamp(),
        auto_quarantine_config_attributes=Part(AutoQuarantineConfigEventLogAttributes),
    ),
    declare(
        "ci_insights.auto_quarantine.disabled",
        NEUTRAL,
        disabled_by=Part(Actor),
        disabled_at=Timestamp(),
        auto_quarantine_config_attributes=Part(AutoQuarantineConfigEventLogAttributes),
    ),
    declare(
        "ci_insights.auto_quarantine.modified",
        NEUTRAL,
        updated_by=Part(Actor),
        updated_at=Timestamp(),
        auto_quarantine_config_attributes_before=Part(AutoQuarantineConfigEventLogAttributes),
        auto_quarantine_config_attributes_after=Part(AutoQuarantineConfigEventLogAttributes),
    ),
    declare(
        "ci_insights.job_retried",
        By("outcome", {"retried": SUCCESS, "skipped_quota_exceeded": FAILURE}),
        rule_id=Uuid(),
        rule_name=Text(),
        max_retry=Integer(),
        retry_mode=OneOf("job", "pipeline"),
        retry_attempt=Integer(),
        condition_matches=Array(ConditionMatch()),
        outcome=OneOf("retried", "skipped_quota_exceeded"),
    ),
)
