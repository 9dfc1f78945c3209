"""The response schemas, with the fields in the interface's order. Knows no request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from marshmallow import EXCLUDE, Schema, fields
from marshmallow.validate import OneOf, Range

from indexing.health.verdicts import Outcome
from indexing.models.executions import Conclusion
from indexing.models.quarantines import ActorKind, ChangeAction, QuarantineSource
from indexing.models.tests import HealthStatus
from service.schemas.fields import Fixed, Fragment, Moment, Ratio, Spelled, one_of, text

LAST_CONCLUSIONS: Final = (*(conclusion.value for conclusion in Conclusion), "unknown")


class AnswerSchema(Schema):
    """The base of all response schemas; a client accepts fields that a newer service adds."""

    class Meta:
        unknown = EXCLUDE


@dataclass(frozen=True, slots=True)
class Rows:
    """The content of a page: its rows, their number, and the page size in effect.

    `total`, if requested, is the number of rows on all pages, or a lower bound of it.
    """

    rows: Sequence[Any]
    size: int
    per_page: int | None = None
    total: int | None = None
    total_is_exact: bool | None = None


class PageAnswer(AnswerSchema):
    """The fields that a page of any list begins with."""

    size = fields.Integer(required=True, validate=Range(min=0))
    per_page = fields.Integer(required=True, validate=Range(min=1))


class EventPageAnswer(PageAnswer):
    """One page of the event log."""

    events = fields.List(Fragment("Event"), required=True, attribute="rows")


class BarAnswer(AnswerSchema):
    """One bar of a histogram."""

    start = Moment()
    end = Moment()
    count = fields.Integer(required=True)


class TextFacetAnswer(AnswerSchema):
    """One value of a facet, and how many events have it."""

    value = text()
    count = fields.Integer(required=True)


class NumberFacetAnswer(AnswerSchema):
    """One number of a facet, and how many events have it."""

    value = fields.Integer(required=True)
    count = fields.Integer(required=True)


class EventAggregateAnswer(AnswerSchema):
    """The counts of the events that match."""

    total = fields.Integer(required=True)
    interval_size_seconds = fields.Float(required=True)
    histogram = fields.List(fields.Nested(BarAnswer), required=True)
    by_event_type = fields.List(fields.Nested(TextFacetAnswer), required=True)
    by_outcome = fields.List(fields.Nested(TextFacetAnswer), required=True)
    by_trigger = fields.List(fields.Nested(TextFacetAnswer), required=True)
    by_pull_request = fields.List(fields.Nested(NumberFacetAnswer), required=True)


class TestMetricsAnswer(AnswerSchema):
    """One row of the test search by its own executions, in the window of the test."""

    __test__ = False

    health_status = one_of(HealthStatus)
    executions_count = fields.Integer(required=True)
    failed_executions_count = fields.Integer(required=True)
    failure_ratio = Ratio()
    flakiness_ratio = Ratio()
    mean_duration = fields.Float(required=True, allow_none=True)
    last_execution_at = Moment(allow_none=True)
    last_failure_at = Moment(allow_none=True)
    is_quarantined = fields.Boolean(required=True)
    latest_verdicts = fields.List(one_of(Outcome), required=True)


class TestIdentityAnswer(AnswerSchema):
    """One (test, pipeline, job); `metrics` are present if requested."""

    __test__ = False

    test_id = fields.UUID(required=True)
    test_name = text(attribute="key.test_name")
    pipeline_name = text(attribute="key.pipeline_name")
    job_name = text(attribute="key.job_name")
    metrics = fields.Nested(TestMetricsAnswer)


class TestPageAnswer(PageAnswer):
    """One page of the test search; the total is present if requested."""

    __test__ = False

    tests = fields.List(fields.Nested(TestIdentityAnswer), required=True, attribute="rows")
    total = fields.Integer()
    total_is_exact = fields.Boolean()


class PullUserAnswer(AnswerSchema):
    """The author of a pull request."""

    id = fields.Integer(required=True)
    login = text()


class PullAnswer(AnswerSchema):
    """The pull request of a failure."""

    id = fields.Integer(required=True)
    number = fields.Integer(required=True)
    title = text()
    user = fields.Nested(PullUserAnswer, required=True)


class TestDetailAnswer(AnswerSchema):
    """One test over all its pipelines and jobs."""

    __test__ = False

    repository = Spelled(required=True)
    test_name = text()
    test_id = fields.UUID(required=True)
    health_status = one_of(HealthStatus, attribute="health.health_status")
    last_conclusion = text(attribute="health.last_conclusion", validate=OneOf(LAST_CONCLUSIONS))
    failure_ratio = Ratio(attribute="health.failure_ratio")
    flakiness_ratio = Ratio(attribute="health.flakiness_ratio")
    success_ratio = Ratio(attribute="health.success_ratio")
    flaky_detection_enabled = fields.Boolean(required=True)
    first_failure_at = Moment(attribute="health.first_failure_at", allow_none=True)
    first_failure_commit = text(attribute="health.first_failure_commit", allow_none=True)
    first_failure_pull = fields.Nested(
        PullAnswer, required=True, attribute="health.first_failure_pull", allow_none=True
    )
    last_failure_at = Moment(attribute="health.last_failure_at", allow_none=True)
    last_success_at = Moment(attribute="health.last_success_at", allow_none=True)
    test_framework = text(attribute="metadata.framework", allow_none=True)
    test_framework_version = text(attribute="metadata.framework_version", allow_none=True)
    test_programming_language = text(attribute="metadata.language", allow_none=True)
    test_filepath = text(attribute="metadata.filepath", allow_none=True)
    test_function_name = text(attribute="metadata.function_name", allow_none=True)


class VerdictCountsAnswer(AnswerSchema):
    """How many verdicts of a test there are."""

    passed = fields.Integer(required=True)
    failed = fields.Integer(required=True)
    flaky = fields.Integer(required=True)


# The fields of a quarantine that are there if asked for.
QUARANTINE_DETAILS: Final = ("test_id", "owner", "expires_at", "verdicts_since")


class QuarantineAnswer(AnswerSchema):
    """One quarantine in force; the last four fields are there if asked for."""

    id = fields.UUID(required=True, attribute="key.id")
    test_name = text()
    reason = text()
    branch = text(allow_none=True)
    created_at = Moment(attribute="key.created_at")
    source = one_of(QuarantineSource)
    is_recovered = fields.Boolean(required=True)
    test_id = fields.UUID()
    owner = fields.String(allow_none=True)
    expires_at = Moment(allow_none=True, required=False)
    verdicts_since = fields.Nested(VerdictCountsAnswer)


class QuarantinesAnswer(AnswerSchema):
    """The quarantines of a repository."""

    quarantined_tests = fields.List(
        fields.Nested(QuarantineAnswer), required=True, attribute="rows"
    )


# Plugins of test frameworks ask for the tests of a state. No other is served.
TEST_STATE: Final = "quarantined"


class TestStateAnswer(AnswerSchema):
    """One quarantine in force, as plugins of test frameworks read it."""

    __test__ = False

    id = fields.UUID(required=True, attribute="key.id")
    test_name = text()
    state = Fixed(TEST_STATE)
    reason = text()
    branch_name = text(allow_none=True, attribute="branch")
    created_at = Moment(attribute="key.created_at")
    source = one_of(QuarantineSource)
    is_recovered = fields.Boolean(required=True)


class TestStatePageAnswer(PageAnswer):
    """One page of the quarantined tests."""

    __test__ = False

    test_states = fields.List(fields.Nested(TestStateAnswer), required=True, attribute="rows")


class AddedQuarantineAnswer(AnswerSchema):
    """A quarantine in force; `warning` is present if the request looks like a mistake."""

    id = fields.UUID(required=True)
    warning = fields.String()


class ChangeActorAnswer(AnswerSchema):
    """Who changed a quarantine: a key, a user of a machine, or the rules."""

    type = one_of(ActorKind, attribute="kind")
    id = text(allow_none=True)
    name = text()


class QuarantineChangeAnswer(AnswerSchema):
    """One change of a quarantine, with its values since then."""

    at = Moment(attribute="key.at")
    action = one_of(ChangeAction)
    quarantine_id = fields.UUID(required=True)
    test_name = text()
    branch = text(allow_none=True)
    reason = text()
    source = one_of(QuarantineSource)
    actor = fields.Nested(ChangeActorAnswer, required=True, allow_none=True)


class QuarantineChangesAnswer(PageAnswer):
    """One page of the changes of quarantines."""

    changes = fields.List(fields.Nested(QuarantineChangeAnswer), required=True, attribute="rows")


class FieldErrorAnswer(AnswerSchema):
    """One wrong field of a request."""

    where = text(data_key="in", validate=OneOf(["path", "query", "body"]))
    field = text()
    detail = text()


class ProblemAnswer(AnswerSchema):
    """A problem (RFC 9457)."""

    type = text()
    title = text()
    status = fields.Integer(required=True)
    detail = text()


class InvalidAnswer(ProblemAnswer):
    """A problem that lists the wrong fields of a request."""

    errors = fields.List(fields.Nested(FieldErrorAnswer), required=True)


class HealthAnswer(AnswerSchema):
    """The health of the service."""

    status = text(validate=OneOf(["ok"]))


class LineRefusalAnswer(AnswerSchema):
    """One refused line of a body."""

    line = fields.Integer(
        required=True,
        attribute="line.number",
        metadata={"description": "The line number, counted from 1."},
    )
    offset = fields.Integer(
        required=True,
        attribute="line.offset",
        metadata={"description": "The byte offset of the line in the unpacked body."},
    )
    reason = text()


class EventIntakeAnswer(AnswerSchema):
    """The counts of the events of a body, and the first refusals with their reasons."""

    read = fields.Integer(required=True, attribute="count.read")
    written = fields.Integer(required=True, attribute="count.written")
    unchanged = fields.Integer(required=True, attribute="count.unchanged")
    refused = fields.Integer(required=True, attribute="count.refused")
    refusals = fields.List(fields.Nested(LineRefusalAnswer), required=True)


class TracePartialSuccess(AnswerSchema):
    """What was rejected of a trace export request; a 64-bit integer is text in OTLP's JSON."""

    rejected_spans = fields.String(data_key="rejectedSpans")
    error_message = fields.String(data_key="errorMessage")


class TraceAnswer(AnswerSchema):
    """OTLP's `ExportTraceServiceResponse`."""

    partial_success = fields.Nested(TracePartialSuccess, data_key="partialSuccess")
