"""A span to an execution: which spans are tests, which fields count, and why a span is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from indexing.errors import InvalidValueError
from indexing.failures.texts import MESSAGE_MAX_LENGTH, TYPE_MAX_LENGTH
from indexing.failures.traces import unpack_trace
from indexing.models.executions import MAX_ATTEMPT, Conclusion, Execution, PullRequest, Run
from indexing.names import STORED_NAME_MAX_BYTES
from tests.builders import NOON, after
from tests.indexing.otlp.reading import read, read_execution
from tests.spans import RESOURCE, make_attributes, make_span

PULL: dict[str, Any] = {
    "vcs.change.id": "17",
    "mergewatch.pull_request.id": 900,
    "mergewatch.pull_request.title": "Mend the hinge",
    "mergewatch.pull_request.user.id": 4,
    "mergewatch.pull_request.user.login": "mona",
}


def read_run(**resource: Any) -> Run:
    found = read(make_span(), **resource)
    assert found is not None
    return found[0]


def test_a_span_of_a_test_is_an_execution_of_its_run() -> None:
    span = make_span(
        "tests/test_hinge.py::test_open",
        attributes={
            "code.filepath": "tests/test_hinge.py",
            "code.function": "test_open",
            "code.lineno": 12,
            "cicd.test.quarantined": True,
            "test.framework": "pytest",
            "test.framework.version": "9.1",
            "test.language": "python",
        },
        seconds=0.25,
    )
    found = read(span, **{"cicd.pipeline.run.attempt": 2})
    assert found is not None
    run, execution = found
    assert run == Run("1", 2, "ci", "unit", "main", "c0ffee")
    assert execution == Execution(
        id=execution.id,
        test_name="tests/test_hinge.py::test_open",
        conclusion=Conclusion.PASSED,
        finished_at=NOON,
        duration=0.25,
        framework="pytest",
        framework_version="9.1",
        language="python",
        filepath="tests/test_hinge.py",
        function_name="test_open",
    )
    assert len(execution.id) == 16


def test_the_case_name_goes_before_the_name_of_the_span() -> None:
    span = make_span("call", attributes={"test.case.name": "hinge.opens"})
    assert read_execution(span).test_name == "hinge.opens"


def test_newer_names_of_the_code_are_known_too() -> None:
    newer = {"code.file.path": "a.py", "code.function.name": "m.f"}
    execution = read_execution(make_span(attributes=newer))
    assert (execution.filepath, execution.function_name) == ("a.py", "m.f")


def test_a_function_has_a_name_as_long_as_that_of_a_test() -> None:
    longest = "t" * STORED_NAME_MAX_BYTES
    span = make_span(longest, attributes={"code.function": longest})
    assert read_execution(span).function_name == longest
    assert (
        read_execution(make_span(attributes={"code.function": f"{longest}t"})).function_name is None
    )


@pytest.mark.parametrize(
    ("attributes", "is_test"),
    [
        ({}, False),
        ({"http.method": "GET"}, False),
        ({"test.scope": "session", "test.case.result.status": "passed"}, False),
        ({"test.scope": "suite", "test.case.name": "a"}, False),
        ({"test.scope": "case"}, True),
        ({"test.case.name": "a"}, True),
        ({"test.case.result.status": "passed"}, True),
    ],
)
def test_a_span_that_ran_no_test_is_passed_over(attributes: dict[str, Any], is_test: bool) -> None:
    span = make_span(attributes={"test.scope": None, "test.case.result.status": None, **attributes})
    failed = Span()
    failed.CopyFrom(span)
    failed.status.code = Status.STATUS_CODE_ERROR
    assert (read(span) is not None) == (read(failed) is not None) == is_test


@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_attribute_of_a_span_does_not_hide_that_of_its_resource(blank: str) -> None:
    found = read(make_span(attributes={"cicd.pipeline.name": blank}))
    assert found is not None
    assert found[0].pipeline_name == "ci"


def test_the_name_that_people_give_a_job_tells_the_jobs_of_a_matrix_apart() -> None:
    assert read_run(**{"mergify.test.job.name": "unit (3.11)"}).job_name == "unit (3.11)"
    assert read_run(**{"mergify.test.job.name": ""}).job_name == "unit"


def test_a_failure_comes_from_attributes_or_the_last_recorded_exception() -> None:
    said = {"exception.type": "AssertionError", "exception.message": " no hinge "}
    events = [
        Span.Event(name="log", attributes=make_attributes({"exception.type": "Log"})),
        Span.Event(name="exception", attributes=make_attributes({"exception.type": "First"})),
        Span.Event(
            name="exception",
            attributes=make_attributes({"exception.type": "Last", "exception.stacktrace": "at 3"}),
        ),
    ]
    by_attributes = read_execution(make_span(result="failed", attributes=said, events=events))
    by_events = read_execution(make_span(result="failed", events=events))
    by_status = read_execution(
        make_span(result=None, status=Status(code=Status.STATUS_CODE_ERROR, message="why"))
    )
    passed = read_execution(make_span(attributes=said, events=events))
    found = [
        (each.failure_type, each.failure_message)
        for each in (by_attributes, by_events, by_status, passed)
    ]
    assert found == [
        ("AssertionError", "no hinge"),
        ("Last", "at 3"),
        (None, "why"),
        (None, None),
    ]


def test_messages_are_cut_as_those_of_reports_are() -> None:
    said = {"exception.type": "T" * 10_000, "exception.message": "m" * 10_000}
    execution = read_execution(make_span(result="failed", attributes=said))
    assert execution.failure_type == "T" * TYPE_MAX_LENGTH
    assert execution.failure_message == "m" * MESSAGE_MAX_LENGTH


def test_a_span_says_more_than_its_resource() -> None:
    found = read(make_span(attributes={"cicd.pipeline.task.name": "lint"}))
    assert found is not None
    assert found[0].job_name == "lint"


def test_the_language_of_the_sender_stands_in_for_that_of_the_test() -> None:
    sender = {"telemetry.sdk.language": "python"}
    found = read(make_span(), **sender)
    assert found is not None
    assert found[1].language == "python"
    found = read(make_span(attributes={"test.language": "ruby"}), **sender)
    assert found is not None
    assert found[1].language == "ruby"


def test_the_run_of_a_test_framework_stands_in_for_that_of_a_pipeline() -> None:
    there: dict[str, Any] = {"cicd.pipeline.run.id": "77", "test.run.id": "abc"}
    assert read_run(**there).run_id == "77"
    assert read_run(**{**there, "cicd.pipeline.run.id": None}).run_id == "abc"
    assert read_run(**{**there, "cicd.pipeline.run.id": " "}).run_id == "abc"


@pytest.mark.parametrize("number", ["17", 17])
def test_a_pull_request_is_whole_or_a_number(number: str | int) -> None:
    whole = read_run(**{**PULL, "vcs.change.id": number})
    assert whole.pull == PullRequest(900, 17, "Mend the hinge", 4, "mona")
    for missing in PULL:
        run = read_run(**{**PULL, missing: None})
        assert run.pull is None
        assert run.pull_number == (None if missing == "vcs.change.id" else 17)


@pytest.mark.parametrize("number", ["I8473b95934b", "!17", "", "0", -1, "9" * 30, 1.5, True])
def test_a_change_that_is_no_number_is_left_out(number: Any) -> None:
    assert read_run(**{**PULL, "vcs.change.id": number}).pull_number is None


def test_ids_depend_on_identity_trace_and_span_alone() -> None:
    ids: dict[str, Any] = {"trace_id": b"t" * 16, "span_id": b"s" * 8}
    one = read_execution(make_span(**ids))
    again = read_execution(make_span(result="failed", at=NOON + timedelta(days=1), **ids))
    others = [
        read_execution(make_span(**{**ids, "trace_id": b"u" * 16})),
        read_execution(make_span(**{**ids, "span_id": b"r" * 8})),
        read_execution(make_span("other", **ids)),
    ]
    assert one.id == again.id
    assert len({one.id, *(other.id for other in others)}) == 4


def test_times_are_to_the_microsecond_and_a_start_after_the_end_gives_no_duration() -> None:
    span = make_span(end_time_unix_nano=1_700_000_000_123_456_789, start_time_unix_nano=0)
    assert read_execution(span).finished_at == datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)
    assert read_execution(span).duration is None
    assert read_execution(make_span(seconds=-1)).duration is None


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        ({"name": ""}, "the name of the test must not be empty"),
        ({"name": "a\0b"}, "the name of the test must not hold a NUL"),
        ({"name": "é" * STORED_NAME_MAX_BYTES}, "the name of the test must have at most"),
        ({"trace_id": bytes(16)}, "traceId must be 16 bytes"),
        ({"trace_id": b""}, "traceId must be 16 bytes"),
        ({"span_id": b"too long for one"}, "spanId must be 8 bytes"),
        ({"span_id": bytes(8)}, "spanId must be 8 bytes"),
        ({"end_time_unix_nano": 0}, "endTimeUnixNano must be"),
        ({"end_time_unix_nano": 2**64 - 1}, "endTimeUnixNano must be"),
        ({"end_time_unix_nano": 1}, "endTimeUnixNano is before 2000-01-01"),
        ({"end_time_unix_nano": 2**63 - 1}, "endTimeUnixNano is more than a day ahead"),
        ({"at": after(days=1, microseconds=1)}, "endTimeUnixNano is more than a day ahead"),
        *(
            (
                {"attributes": {"test.case.result.status": result}},
                "test.case.result.status must be passed, failed or skipped",
            )
            for result in ("broken", 1, False, True, 1.0)
        ),
        ({"attributes": {"test.framework": "a\0"}}, "test.framework must not hold a NUL"),
    ],
)
def test_a_test_that_cannot_be_stored_is_refused_by_name(span: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason):
        read(make_span(**span))


def test_no_character_of_a_failure_refuses_it() -> None:
    stated = {"exception.type": "E\0", "exception.message": "a\0b"}
    failed = read_execution(make_span(result="failed", attributes=stated))
    assert (failed.failure_type, failed.failure_message) == ("E\ufffd", "a\ufffdb")
    failed = read_execution(
        make_span(result="failed", attributes={"exception.stacktrace": "at\0line"})
    )
    assert failed.failure_message == "at\ufffdline"
    assert failed.failure_trace is not None


@pytest.mark.parametrize(
    "missing", [name for name in RESOURCE if name != "cicd.pipeline.run.id"] + ["test.run.id"]
)
def test_a_run_that_is_not_named_whole_is_refused_by_the_name_of_what_is_missing(
    missing: str,
) -> None:
    with pytest.raises(InvalidValueError, match=f"{missing} is missing"):
        read_run(**{"cicd.pipeline.run.id": None, "test.run.id": "7", missing: None})


@pytest.mark.parametrize("attempt", [0, -1, MAX_ATTEMPT + 1, "second", True, 1.5])
def test_an_attempt_that_is_no_count_is_refused(attempt: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"cicd.pipeline.run.attempt must be 1 to"):
        read_run(**{"cicd.pipeline.run.attempt": attempt})


def test_an_attempt_may_be_digits() -> None:
    assert read_run(**{"cicd.pipeline.run.attempt": "3"}).attempt == 3


def test_the_branch_of_a_fork_is_not_mistaken_for_ours() -> None:
    of_fork = {"vcs.ref.head.name": "main", "vcs.ref.base.name": "main"}
    assert read_run(**of_fork, **PULL).branch == "fork:main"
    assert read_run(**of_fork).branch == "main"
    other = {"vcs.ref.head.name": "mend", "vcs.ref.base.name": "main"}
    assert read_run(**other, **PULL).branch == "mend"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "E\n  at hinge"),
        # What OpenTelemetry records of a bare `assert`.
        ({"exception.message": ""}, "E\n  at hinge"),
        ({"mergewatch.test.without_message": True}, None),
    ],
)
def test_the_trace_is_taken_for_a_missing_message_unless_there_is_none(
    more: dict[str, Any], message: str | None
) -> None:
    trace = {"exception.type": "E", "exception.stacktrace": "E\n  at hinge"}
    found = read_execution(make_span("t", "failed", attributes={**trace, **more}))
    assert found.failure_message == message


def test_the_trace_of_the_exception_is_kept() -> None:
    about = {"exception.message": "stuck", "exception.stacktrace": "\n  at hinge\n"}
    failed = read_execution(make_span("t", "failed", attributes=about))
    assert failed.failure_trace is not None
    assert unpack_trace(failed.failure_trace) == "  at hinge"
    assert failed.failure_message == "stuck"
    assert read_execution(make_span("t", "passed", attributes=about)).failure_trace is None


def test_the_page_of_the_job_comes_before_that_of_its_pipeline() -> None:
    task, pipeline = "https://ci.example/job/7", "https://ci.example/run/1"
    names = ("cicd.pipeline.task.run.url.full", "cicd.pipeline.run.url.full")
    assert read_run(**dict(zip(names, (task, pipeline), strict=True))).job_url == task
    assert read_run(**{names[1]: pipeline}).job_url == pipeline
    assert read_run(**{names[0]: "javascript:alert(1)", names[1]: pipeline}).job_url == pipeline
    assert read_run(**{names[0]: 7}).job_url is None
    # The name that plugins use.
    assert read_run(**{"cicd.pipeline.run.url": pipeline}).job_url == pipeline
    assert read_run(**{"cicd.pipeline.run.url": task, names[1]: pipeline}).job_url == pipeline


# What pytest-mergify 2026.10.9 sends from GitHub Actions.
_ON_GITHUB: dict[str, Any] = {
    "cicd.pipeline.run.attempt": 2,
    "cicd.pipeline.run.id": 7001,
    "cicd.provider.name": "github_actions",
    "vcs.repository.id": 42,
    "vcs.repository.name": "acme/widgets",
    "vcs.repository.url.full": "https://github.com/acme/widgets",
}


@pytest.mark.parametrize(
    ("other", "url"),
    [
        ({}, "https://github.com/acme/widgets/actions/runs/7001/attempts/2"),
        (
            {"cicd.pipeline.run.attempt": None},
            "https://github.com/acme/widgets/actions/runs/7001",
        ),
        (
            {"vcs.repository.url.full": "https://code.example/git/acme/widgets.git/"},
            "https://code.example/git/acme/widgets/actions/runs/7001/attempts/2",
        ),
        ({"cicd.pipeline.run.url": "https://ci.example/1"}, "https://ci.example/1"),
        ({"cicd.provider.name": "jenkins"}, None),
        ({"cicd.provider.name": None}, None),
        ({"cicd.pipeline.run.id": "7001/../8"}, None),
        ({"cicd.pipeline.run.id": None, "test.run.id": "7001"}, None),
        ({"vcs.repository.url.full": None}, None),
        ({"vcs.repository.url.full": "git@github.com:acme/widgets.git"}, None),
        ({"vcs.repository.url.full": "https://mona:secret@github.com/acme/widgets"}, None),
        ({"vcs.repository.url.full": "javascript:alert(1)"}, None),
        ({"vcs.repository.url.full": "https://github.com/acme/widgets?a=1"}, None),
        ({"vcs.repository.url.full": "https://github.com/acme/widgets#a"}, None),
        ({"vcs.repository.url.full": "https://github.com/" + "x" * 2_048}, None),
    ],
)
def test_the_page_of_a_run_on_github_is_made_of_what_plugins_send(
    other: dict[str, Any], url: str | None
) -> None:
    assert read_run(**{**_ON_GITHUB, **other}).job_url == url
