"""The response schemas of the insights. Knows no request."""

from __future__ import annotations

from marshmallow import fields

from indexing.health.explanation import Rule
from indexing.health.verdicts import Outcome
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus
from indexing.models.trends import Stat, TestStat
from service.schemas.fields import Figure, Moment, Spelled, one_of, text
from service.schemas.responses import AnswerSchema, PageAnswer


class ExecutionAnswer(AnswerSchema):
    """One execution of a test."""

    id = text()
    finished_at = Moment(attribute="key.finished_at")
    conclusion = one_of(Conclusion)
    needed_retries = fields.Boolean(required=True)
    duration = fields.Float(required=True, allow_none=True)
    branch = text()
    commit = text()
    pipeline_name = text()
    job_name = text()
    run_id = text()
    attempt = fields.Integer(required=True)
    pull_request = fields.Integer(required=True, attribute="pull_number", allow_none=True)
    job_url = text(allow_none=True)
    failure_id = fields.UUID(required=True, allow_none=True)


class ExecutionPageAnswer(PageAnswer):
    """One page of the executions of a test."""

    executions = fields.List(fields.Nested(ExecutionAnswer), required=True, attribute="rows")


class FailureAnswer(AnswerSchema):
    """One failure: executions of a test that failed in the same way."""

    id = fields.UUID(required=True, attribute="key.id")
    exception_type = text(allow_none=True)
    exception_message = text(allow_none=True)
    failure_count = fields.Integer(required=True)
    first_failure_at = Moment()
    last_failure_at = Moment(attribute="key.last_failure_at")


class FailurePageAnswer(PageAnswer):
    """One page of the failures of a test."""

    failures = fields.List(fields.Nested(FailureAnswer), required=True, attribute="rows")


class FailureEventAnswer(AnswerSchema):
    """One execution with that failure."""

    id = text(attribute="execution.id")
    failed_at = Moment(attribute="execution.key.finished_at")
    exception_message = text(allow_none=True)
    exception_stacktrace = text(allow_none=True)
    branch = text(attribute="execution.branch")
    commit = text(attribute="execution.commit")
    pipeline_name = text(attribute="execution.pipeline_name")
    job_name = text(attribute="execution.job_name")
    run_id = text(attribute="execution.run_id")
    attempt = fields.Integer(required=True, attribute="execution.attempt")
    pull_request = fields.Integer(required=True, attribute="execution.pull_number", allow_none=True)
    job_url = text(attribute="execution.job_url", allow_none=True)


class FailureDetailAnswer(AnswerSchema):
    """One failure of a test, with its newest events."""

    id = fields.UUID(required=True, attribute="failure.key.id")
    exception_type = text(attribute="failure.exception_type", allow_none=True)
    exception_message = text(attribute="failure.exception_message", allow_none=True)
    failure_count = fields.Integer(required=True, attribute="failure.failure_count")
    first_failure_at = Moment(attribute="failure.first_failure_at")
    last_failure_at = Moment(attribute="failure.key.last_failure_at")
    latest_events = fields.List(fields.Nested(FailureEventAnswer), required=True)


class RunAnswer(AnswerSchema):
    """One CI job whose results arrived."""

    run_id = text(attribute="run.run_id")
    attempt = fields.Integer(required=True, attribute="run.attempt")
    pipeline_name = text(attribute="run.pipeline_name")
    job_name = text(attribute="run.job_name")
    branch = text(attribute="run.branch")
    commit = text(attribute="run.commit")
    pull_request = fields.Integer(required=True, attribute="run.pull_number", allow_none=True)
    job_url = text(attribute="run.job_url", allow_none=True)
    finished_at = Moment(attribute="key.finished_at")
    passed = fields.Integer(required=True)
    failed = fields.Integer(required=True)
    skipped = fields.Integer(required=True)
    is_infrastructure_failure = fields.Boolean(required=True)


class RunPageAnswer(PageAnswer):
    """One page of the runs."""

    runs = fields.List(fields.Nested(RunAnswer), required=True, attribute="rows")


class ReportedVerdictAnswer(AnswerSchema):
    """The verdict of one commit in one (pipeline, job)."""

    verdict = one_of(Outcome)
    commit = text()
    first_execution_at = Moment()
    last_execution_at = Moment()


class JobHealthAnswer(AnswerSchema):
    """The health of a test in one (pipeline, job), and why."""

    pipeline_name = text()
    job_name = text()
    health_status = one_of(HealthStatus)
    is_live = fields.Boolean(required=True)
    rule = one_of(Rule)
    explanation = text()
    executions_count = fields.Integer(required=True)
    failed_executions_count = fields.Integer(required=True)
    mean_duration = fields.Float(required=True, allow_none=True)
    last_execution_at = Moment()
    verdicts = fields.List(fields.Nested(ReportedVerdictAnswer), required=True)


class HealthReportAnswer(AnswerSchema):
    """Why a test is healthy, flaky or broken: its health in each (pipeline, job), worst first.

    `jobs` contains the worst of them, `jobs_count` is the number of all. `owners` are present if
    requested.
    """

    health_status = one_of(HealthStatus)
    jobs = fields.List(fields.Nested(JobHealthAnswer), required=True)
    jobs_count = fields.Integer(required=True)
    owners = fields.List(fields.String())


class SeriesBarAnswer(AnswerSchema):
    """One UTC day of a series."""

    start = Moment()
    end = Moment()
    value = Figure()


class SeriesAnswer(AnswerSchema):
    """A figure over a range of days, and its value on each day."""

    stat = one_of(Stat)
    value = Figure()
    value_over_time = fields.List(fields.Nested(SeriesBarAnswer), required=True)


class TestGroupAnswer(AnswerSchema):
    """The tests of one pipeline, job, directory or owner; null for tests without one."""

    __test__ = False

    value = text(allow_none=True)
    tests = fields.Integer(required=True)
    healthy = fields.Integer(required=True)
    flaky = fields.Integer(required=True)
    broken = fields.Integer(required=True)
    # A schema has an attribute `unknown` itself.
    unknown_tests = fields.Integer(required=True, data_key="unknown", attribute="unknown")
    executions_count = fields.Integer(required=True)
    failed_executions_count = fields.Integer(required=True)


class TestGroupsAnswer(AnswerSchema):
    """The groups of tests, worst first."""

    __test__ = False

    groups = fields.List(fields.Nested(TestGroupAnswer), required=True)


class TestSeriesAnswer(AnswerSchema):
    """A figure about a test over a range of days, and its value on each day."""

    __test__ = False

    stat = one_of(TestStat)
    value = Figure()
    value_over_time = fields.List(fields.Nested(SeriesBarAnswer), required=True)


class TestTransitionAnswer(AnswerSchema):
    """A change of the health of a test in one (pipeline, job)."""

    __test__ = False

    at = Moment(attribute="key.at")
    pipeline_name = text()
    job_name = text()
    previous_health_status = one_of(HealthStatus, attribute="previous")
    health_status = one_of(HealthStatus, attribute="health")
    exception_type = text(allow_none=True)
    commit = text(allow_none=True)
    pull_request = fields.Integer(required=True, attribute="pull_number", allow_none=True)


class TransitionAnswer(TestTransitionAnswer):
    """A change of the health of a test, with its test."""

    test_id = fields.UUID(required=True)
    test_name = text()

    class Meta:
        fields = (
            "at",
            "test_id",
            "test_name",
            "pipeline_name",
            "job_name",
            "previous_health_status",
            "health_status",
            "exception_type",
            "commit",
            "pull_request",
        )


class TransitionPageAnswer(PageAnswer):
    """One page of the changes of health."""

    transitions = fields.List(fields.Nested(TransitionAnswer), required=True, attribute="rows")


class TestTransitionsAnswer(AnswerSchema):
    """The newest changes of the health of a test."""

    __test__ = False

    transitions = fields.List(fields.Nested(TestTransitionAnswer), required=True)
    first_activity_at = Moment(allow_none=True)


class TestCountsAnswer(AnswerSchema):
    """How many tests of a repository have each health."""

    __test__ = False

    healthy = fields.Integer(required=True)
    flaky = fields.Integer(required=True)
    broken = fields.Integer(required=True)
    # A schema has an attribute `unknown` itself.
    unknown_tests = fields.Integer(required=True, data_key="unknown", attribute="unknown")


class RepositoryAnswer(AnswerSchema):
    """A repository with the health of its tests."""

    repository = Spelled(required=True, attribute="repository.name")
    default_branch = text(attribute="repository.default_branch")
    tests = fields.Nested(TestCountsAnswer, required=True)
    quarantined_tests = fields.Integer(required=True)
    last_execution_at = Moment(allow_none=True)
    last_event_at = Moment(allow_none=True)


class RepositoryPageAnswer(PageAnswer):
    """One page of the repositories of an owner."""

    repositories = fields.List(fields.Nested(RepositoryAnswer), required=True, attribute="rows")
