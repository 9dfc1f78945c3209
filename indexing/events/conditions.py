"""The schemas of conditions: their syntax, their evaluation, and matches in a job's output."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError

from indexing.events.alternatives import ByMember, ByType
from indexing.events.fields import (
    Array,
    Boolean,
    Integer,
    JsonObject,
    OneOf,
    Part,
    Parts,
    Strings,
    Text,
    Timestamp,
)
from indexing.events.schema import OpenSchema


class ConditionEvaluation(OpenSchema):
    """The result of one condition for one pull request."""

    pull_request = Integer()
    match = Boolean()
    evaluation_error = Text(allow_none=True)
    related_checks = Strings()
    next_evaluation_at = Timestamp(allow_none=True)


class QueueConditionEvaluationResult(OpenSchema):
    """A tree of conditions, each with its result."""

    match = Boolean()
    label = Text()
    is_label_user_input = Boolean()
    description = Text(allow_none=True)
    attribute_name = Text(allow_none=True)
    operator = Text(allow_none=True)
    schedule = JsonObject(allow_none=True)
    subconditions = Array(Part(lambda: QueueConditionEvaluationResult()))
    evaluations = Parts(ConditionEvaluation)


class Condition(ByType):
    """A condition string, or a dictionary of conditions."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            "a condition string or a dictionary of conditions",
            {str: Text(), dict: Part(lambda: Conditions())},
            **settings,
        )


class Conditions(OpenSchema):
    """A dictionary of conditions: exactly one of `and`, `or` and `not`."""

    # `and` and `or` are Python keywords, so the attributes have other names.
    all_of = Array(Condition(), required=False, data_key="and", attribute="and")
    any_of = Array(Condition(), required=False, data_key="or", attribute="or")
    negated = Condition(required=False, data_key="not", attribute="not")

    def check_members(self, data: dict[str, Any]) -> None:
        if len(data.keys() & {"and", "or", "not"}) != 1:
            raise ValidationError("must have exactly one of the members and, or, not")


class ConditionSet(ByType):
    """A dictionary of conditions, or an array of condition strings."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            "a dictionary of conditions or an array of strings",
            {dict: Part(Conditions), list: Strings()},
            **settings,
        )


class SimpleConditionMatch(OpenSchema):
    """An attribute of the job had the value that the condition requires."""

    attribute = Text()
    matched_value = Text()


class AnnotationConditionMatch(SimpleConditionMatch):
    """A log pattern was found in an annotation of the job."""

    source = OneOf("annotation")
    annotation_title = Text()
    annotation_path = Text()


class JobLogConditionMatch(SimpleConditionMatch):
    """A log pattern was found in the job's log."""

    source = OneOf("job_log")
    matched_line_number = Integer()


class ConditionMatch(ByMember):
    """One of the three variants of a condition match."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            "source",
            {
                None: Part(SimpleConditionMatch),
                "annotation": Part(AnnotationConditionMatch),
                "job_log": Part(JobLogConditionMatch),
            },
            **settings,
        )
