"""The interface's tables of events as plain text, parsed here independently of the catalogue.

It imports nothing of the project, so that an error in its declarations cannot hide in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

METADATA: Final = """
action.assign | added: string[]; removed: string[]
action.backport | to: string; pull_request_number: integer; conflicts: boolean
action.close | message: string
action.comment | message: string
action.copy | to: string; pull_request_number: integer; conflicts: boolean
action.delete_head_branch | branch: string
action.dequeue |
action.dismiss_reviews | users: string[]
action.edit | draft: boolean
action.host_actions | workflow: string; inputs: object
action.label | added: string[]; removed: string[]
action.merge | branch: string
action.post_check | conclusion: string; title: string; summary: string
action.rebase |
action.refresh |
action.request_reviews | reviewers: string[]; team_reviewers: string[]
action.review | review_type: string; reviewer: string or null; message: string or null
action.squash |
action.update |
action.queue.enter | queue_name: string; branch: string; queued_at: date-time;\
 partition_name: string or null; priority_rule_name: string or null; session_id: uuid
action.queue.leave | reason: string; merged: boolean; queue_name: string; branch: string;\
 partition_name: string; queued_at: date-time; seconds_waiting_for_schedule: integer;\
 seconds_waiting_for_freeze: integer; priority_rule_name: string or null;\
 conditions_evaluation: QueueConditionEvaluationResult or null; checks: QueueCheck[];\
 session_id: uuid or null
action.queue.merged | branch: string; partition_names: string[]; queue_name: string;\
 queued_at: date-time; priority_rule_name: string or null; session_id: uuid
action.queue.change | queue_name: string; partition_name: string;\
 priority_rule_name: string or null; size: integer
action.queue.checks.change | queue_name: string; partition_name: string; running_checks: integer
action.queue.checks_start | branch: string; partition_name: string or null;\
 priority_rule_name: string or null; queue_name: string; queued_at: date-time;\
 start_reason: string; speculative_check_pull_request: SpeculativeCheckPullRequest;\
 session_id: uuid
action.queue.checks_not_started | branch: string; partition_name: string or null;\
 priority_rule_name: string or null; queue_name: string; queued_at: date-time; reason: string;\
 session_id: uuid
action.queue.checks_end | aborted: boolean; abort_code: AbortCode or null;\
 abort_reason: string or null; abort_status: AbortStatus; branch: string;\
 partition_name: string; priority_rule_name: string or null; queue_name: string;\
 queued_at: date-time; retry_attempt: integer or null; max_retries: integer or null;\
 speculative_check_pull_request: SpeculativeCheckPullRequest; session_id: uuid
action.queue.batch_bisection_start | queue_name: string; partition_name: string;\
 priority_rule_name: string or null; original_batch_pr_numbers: integer[];\
 batch_size_before_split: integer; number_of_sub_batches: integer; bisection_depth: integer;\
 is_top_level: boolean; session_id: uuid; train_car_id: uuid or null
action.queue.batch_bisection_end | queue_name: string; partition_name: string;\
 priority_rule_name: string or null; original_batch_pr_numbers: integer[];\
 culprit_found: boolean; culprit_pr_numbers: integer[]; remaining_pr_numbers: integer[];\
 max_failure_resolution_reached: boolean; session_id: uuid; train_car_id: uuid or null
command.dequeue | author: HostAccount; comment_id: integer; session_id: uuid or null
command.queue | author: HostAccount; comment_id: integer; session_id: uuid or null
queue.pause.create | reason: string; created_by: Actor
queue.pause.update | reason: string; updated_by: Actor
queue.pause.delete | deleted_by: Actor
scheduled_freeze.create | scheduled_freeze_attributes: Freeze; created_by: Actor;\
 created_at: date-time
scheduled_freeze.update | scheduled_freeze_attributes_before: Freeze;\
 scheduled_freeze_attributes_after: Freeze; updated_by: Actor; updated_at: date-time
scheduled_freeze.delete | scheduled_freeze_attributes: Freeze; reason: string;\
 deleted_by: Actor; deleted_at: date-time
ci_insights.auto_quarantine.enabled | enabled_by: Actor; enabled_at: date-time;\
 auto_quarantine_config_attributes: AutoQuarantineConfig
ci_insights.auto_quarantine.disabled | disabled_by: Actor; disabled_at: date-time;\
 auto_quarantine_config_attributes: AutoQuarantineConfig
ci_insights.auto_quarantine.modified | updated_by: Actor; updated_at: date-time;\
 auto_quarantine_config_attributes_before: AutoQuarantineConfig;\
 auto_quarantine_config_attributes_after: AutoQuarantineConfig
ci_insights.job_retried | rule_id: uuid; rule_name: string; max_retry: integer;\
 retry_mode: RetryMode; retry_attempt: integer; condition_matches: ConditionMatch[];\
 outcome: RetryOutcome
"""

OBJECTS: Final = """
Envelope | id: integer; received_at: date-time; trigger: string; repository: repository;\
 pull_request: integer or null; base_ref: string or null
Actor | type: ActorType; id: integer-or-uuid; name: string
HostAccount | login: string; id: integer; type: AccountType
QueueCheck | name: string; description: string; url: string or null;\
 details_url?: string or null; state: CheckState; avatar_url: string or null;\
 pull_request_head_sha: string
SpeculativeCheckPullRequest | number: integer; in_place: boolean; checks_timed_out: boolean;\
 checks_conclusion: CheckState; checks_started_at: date-time or null;\
 checks_ended_at: date-time or null; unsuccessful_checks: QueueCheck[];\
 pull_request_numbers: integer[]; train_car_id: uuid or null
QueueConditionEvaluationResult | match: boolean; label: string; is_label_user_input: boolean;\
 description: string or null; attribute_name: string or null; operator: string or null;\
 schedule: object or null; subconditions: QueueConditionEvaluationResult[];\
 evaluations: Evaluation[]
Evaluation | pull_request: integer; match: boolean; evaluation_error: string or null;\
 related_checks: string[]; next_evaluation_at: date-time or null
Freeze | reason: string; start: date-time; end: date-time or null; timezone: string;\
 matching_conditions: conditions; exclude_conditions: conditions
AutoQuarantineConfig | ignore_broken_on_default_branch: boolean
ConditionMatch | attribute: string; matched_value: string
"""

CHOICES: Final = """
ActorType | application user
AccountType | User Organization Bot Mannequin Enterprise
CheckState | failure error cancelled action_required timed_out pending neutral skipped stale success
AbortStatus | DEFINITIVE REEMBARKED
RetryMode | job pipeline
RetryOutcome | retried skipped_quota_exceeded
AbortCode | PR_DEQUEUED PR_DEQUEUED_FROM_PARTITION PR_AHEAD_DEQUEUED BATCH_AHEAD_FAILED\
 PR_WITH_HIGHER_PRIORITY_QUEUED SCHEDULED_FREEZE_STATUS_CHANGED SPECULATIVE_CHECK_NUMBER_REDUCED\
 CHECKS_TIMEOUT CHECKS_FAILED QUEUE_RULE_MISSING BASE_BRANCH_MISSING BASE_BRANCH_CHANGED\
 PR_UNEXPECTEDLY_FAILED_TO_MERGE BATCH_MAX_FAILURE_RESOLUTION_ATTEMPTS\
 PR_CHECKS_STOPPED_BECAUSE_MERGE_QUEUE_PAUSE CONFLICT_WITH_BASE_BRANCH CONFLICT_WITH_PULL_AHEAD\
 BRANCH_UPDATE_FAILED DRAFT_PULL_REQUEST_CHANGED PULL_REQUEST_UPDATED MERGE_QUEUE_RESET\
 INCOMPATIBILITY_WITH_BRANCH_PROTECTIONS PR_MANUALLY_MERGED DRAFT_PULL_REQUEST_CREATION_FAILED\
 DRAFT_PULL_REQUEST_CREATION_BRANCH_NOT_INDEXED CONFIGURATION_CHANGED UNPROCESSABLE_PULL_REQUEST\
 PR_MANUALLY_DEQUEUED STACK_PREDECESSOR_DEQUEUED INTERMEDIATE_RESULTS_SKIPPED CHECKS_RETRIED
"""


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for row in table.strip().splitlines():
        name, _, text = row.partition("|")
        yield name.strip(), text.strip()


_CHOICES: Final = {name: tuple(text.split()) for name, text in _rows(CHOICES)}
_OBJECTS: Final = dict(_rows(OBJECTS))


@dataclass(frozen=True)
class Shape:
    """The allowed values; `kind` is the word for a scalar, `array`, `choice` or `struct`."""

    kind: str
    nullable: bool = False
    required: bool = True
    item: Shape | None = None
    choices: tuple[str, ...] = ()
    name: str = ""
    # The members of an anonymous struct; a named one is looked up, because it may contain itself.
    own: dict[str, Shape] = field(default_factory=dict)

    @property
    def members(self) -> dict[str, Shape]:
        return read_members(_OBJECTS[self.name]) if self.name else self.own


def read_shape(text: str) -> Shape:
    """Parse one word of the tables."""
    text = text.strip()
    if text.endswith(" or null"):
        return replace(read_shape(text.removesuffix(" or null")), nullable=True)
    if text.endswith("[]"):
        return Shape("array", item=read_shape(text.removesuffix("[]")))
    if text in _CHOICES:
        return Shape("choice", choices=_CHOICES[text])
    if text in _OBJECTS:
        return Shape("struct", name=text)
    return Shape(text)


def read_members(text: str) -> dict[str, Shape]:
    """Parse a row of the tables; a question mark follows an optional member."""
    members = {}
    for member in filter(None, text.split(";")):
        name, _, word = member.strip().partition(":")
        shape = read_shape(word)
        members[name.rstrip("?")] = replace(shape, required=not name.endswith("?"))
    return members


EVENT_TYPES: Final = tuple(name for name, _ in _rows(METADATA))
ABORT_CODES: Final = _CHOICES["AbortCode"]


def event_shape(event_type: str) -> Shape:
    """The whole event of that type."""
    metadata = Shape("struct", own=read_members(dict(_rows(METADATA))[event_type]))
    return Shape(
        "struct",
        own={
            **Shape("struct", name="Envelope").members,
            "type": Shape("choice", choices=(event_type,)),
            "metadata": metadata,
        },
    )


_PLAIN: Final[dict[str, Any]] = {
    "string": "text",
    "integer": 7,
    "boolean": True,
    "date-time": "2026-11-03T09:30:00Z",
    "uuid": "0b9d6b0e-2d65-5c6c-9f0f-0e6a1f0a9d11",
    "repository": "demo/mergewatch",
    "object": {"any": ["thing", 1]},
    "integer-or-uuid": 42,
    "conditions": {"and": ["base=main", {"not": "label=urgent"}]},
}


def plain(shape: Shape, depth: int = 0) -> Any:
    """One valid value, the same each time, with every member it can have."""
    if shape.kind == "struct":
        return {name: plain(member, depth + 1) for name, member in shape.members.items()}
    if shape.kind == "array":
        assert shape.item is not None
        # Trees of conditions are recursive.
        return [] if depth > 6 else [plain(shape.item, depth + 1)]
    return shape.choices[0] if shape.kind == "choice" else _PLAIN[shape.kind]


def an_event(**members: Any) -> dict[str, Any]:
    """Return a valid event with these members."""
    event: dict[str, Any] = plain(event_shape("action.comment"))
    return {**event, **members}


def walk(shape: Shape, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Any]:
    """Each declared place in a value, as (path, shape); null contains none."""
    if path:
        yield path, shape
    if shape.kind == "struct" and value is not None:
        for name, member in shape.members.items():
            if name in value:
                yield from walk(member, value[name], (*path, name))
    elif shape.kind == "array":
        assert shape.item is not None
        for index, item in enumerate(value):
            yield from walk(shape.item, item, (*path, index))
