"""What a report says about a failure, beside its message."""

from __future__ import annotations

import pytest

from indexing.failures.traces import TRACE_MAX_BYTES, unpack_trace
from tests.indexing.junit.reading import read_one


def trace_of(case: str) -> str | None:
    packed = read_one(case).failure_trace
    return None if packed is None else unpack_trace(packed)


def test_the_body_of_a_failure_is_its_trace() -> None:
    body = "Traceback:\n  hinge.py:3\n"
    case = f"<testcase name='t'><failure message='stuck'>\n{body}</failure></testcase>"
    assert trace_of(case) == body.rstrip()
    assert read_one(case).failure_message == "stuck"
    assert trace_of(f"<testcase name='t'><error>{body}</error></testcase>") == body.rstrip()


@pytest.mark.parametrize(
    "inside",
    [
        "<failure message='stuck'/><system-err>\n  at hinge\n</system-err>",
        "<system-err>  at hinge</system-err><failure> </failure>",
        "<failure/><system-out>out</system-out><system-err>  at hinge</system-err>",
        "<failure/><error message='stuck'/><system-err>  at hinge</system-err>",
    ],
)
def test_without_a_body_the_error_output_is_the_trace(inside: str) -> None:
    assert trace_of(f"<testcase name='t'>{inside}</testcase>") == "  at hinge"


@pytest.mark.parametrize(
    "inside",
    [
        # CTest, where all that a program wrote is its output.
        "<failure message=''/><system-out>\n  at hinge\n</system-out>",
        "<failure> </failure><system-out>  at hinge</system-out><system-err> </system-err>",
        "<failure/><system-out>  at hinge</system-out><system-out>2</system-out>",
    ],
)
def test_without_error_output_the_output_is_the_trace(inside: str) -> None:
    assert trace_of(f"<testcase name='t'>{inside}</testcase>") == "  at hinge"


def test_the_body_comes_before_the_error_output_and_the_first_failure_before_others() -> None:
    inside = "<system-err>err</system-err><failure>one</failure><error>two</error>"
    assert trace_of(f"<testcase name='t'>{inside}</testcase>") == "one"


def test_what_did_not_fail_has_no_trace() -> None:
    for inside in (
        "<system-err>a log</system-err>",
        "<system-out>a log</system-out>",
        "<skipped>why</skipped>",
        "<flakyFailure/>",
    ):
        assert trace_of(f"<testcase name='t'>{inside}</testcase>") is None


def test_a_long_trace_is_cut_in_its_middle() -> None:
    log = "first\n" + "x" * (1024 * 1024) + "\nlast"
    trace = trace_of(f"<testcase name='t'><failure>{log}</failure></testcase>")
    assert trace is not None
    assert trace.startswith("first")
    assert trace.endswith("last")
    assert len(trace) <= TRACE_MAX_BYTES
