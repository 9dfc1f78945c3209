"""The result that a span states: passed, failed, skipped, or a pass that needed retries."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from indexing.models.executions import Conclusion
from tests.indexing.otlp.reading import read_execution
from tests.spans import make_span


@pytest.mark.parametrize(
    ("stated", "code", "conclusion"),
    [
        ("passed", Status.STATUS_CODE_ERROR, Conclusion.PASSED),
        ("failed", Status.STATUS_CODE_OK, Conclusion.FAILED),
        ("SKIPPED", Status.STATUS_CODE_UNSET, Conclusion.SKIPPED),
        ("pending", Status.STATUS_CODE_OK, Conclusion.SKIPPED),
        ("pass", Status.STATUS_CODE_UNSET, Conclusion.PASSED),
        ("fail", Status.STATUS_CODE_UNSET, Conclusion.FAILED),
        (None, Status.STATUS_CODE_ERROR, Conclusion.FAILED),
        (None, Status.STATUS_CODE_OK, Conclusion.PASSED),
        (None, Status.STATUS_CODE_UNSET, Conclusion.PASSED),
    ],
)
def test_the_result_is_what_the_plugin_says_and_else_the_status(
    stated: str | None, code: Any, conclusion: Conclusion
) -> None:
    span = make_span(result=stated, status=Status(code=code))
    assert read_execution(span).conclusion is conclusion


@pytest.mark.parametrize(
    ("framework", "stated", "conclusion"),
    [
        ("pytest", "skipped", Conclusion.FAILED),
        ("pytest", "passed", Conclusion.PASSED),
        ("rspec", "pending", Conclusion.FAILED),
        ("vitest", "passed", Conclusion.FAILED),
        ("vitest", "skipped", Conclusion.SKIPPED),
        ("jest", "skipped", Conclusion.SKIPPED),
        (None, "skipped", Conclusion.SKIPPED),
    ],
)
def test_a_failure_that_a_quarantine_excused_is_a_failure(
    framework: str | None, stated: str, conclusion: Conclusion
) -> None:
    def conclude(quarantined: bool | None) -> Conclusion:
        attributes = {"cicd.test.quarantined": quarantined, "test.framework": framework}
        return read_execution(make_span(result=stated, attributes=attributes)).conclusion

    assert conclude(True) is conclusion
    assert conclude(False) is conclude(None)
    assert conclude(None) is (Conclusion.PASSED if stated == "passed" else Conclusion.SKIPPED)


@pytest.mark.parametrize(
    ("code", "conclusion"),
    [
        (Status.STATUS_CODE_UNSET, Conclusion.SKIPPED),
        (Status.STATUS_CODE_OK, Conclusion.PASSED),
        (Status.STATUS_CODE_ERROR, Conclusion.FAILED),
    ],
)
def test_a_test_that_a_fixture_of_pytest_skips_did_not_pass(
    code: Any, conclusion: Conclusion
) -> None:
    def conclude(quarantined: bool) -> Conclusion:
        attributes = {"test.framework": "pytest", "cicd.test.quarantined": quarantined}
        span = make_span(result=None, attributes=attributes, status=Status(code=code))
        return read_execution(span).conclusion

    assert conclude(False) is conclusion
    # A fixture of a quarantined test may as well have failed.
    skipped = conclusion is Conclusion.SKIPPED
    assert conclude(True) is (Conclusion.FAILED if skipped else conclusion)


@pytest.mark.parametrize(
    ("attributes", "needed"),
    [
        ({"mergewatch.test.needed_retries": True}, True),
        ({"cicd.test.retry_count": 1}, True),
        ({"cicd.test.retry_count": 0}, False),
        # The plugin ran the test several times, to see whether it is flaky.
        ({"cicd.test.flaky": True, "cicd.test.rerun_count": 3}, True),
        ({"cicd.test.flaky": False, "cicd.test.rerun_count": 3}, False),
        # What the plugin for Vitest sends of a test that passed on its second attempt.
        ({"test.framework": "vitest", "cicd.test.retry_count": 1}, True),
    ],
)
def test_a_pass_that_needed_retries_says_so(attributes: dict[str, Any], needed: bool) -> None:
    assert read_execution(make_span(attributes=attributes)).needed_retries is needed
    failed = read_execution(make_span(result="failed", attributes=attributes))
    assert (failed.conclusion, failed.needed_retries) == (Conclusion.FAILED, False)


# What pytest-mergify 2026.10.9 sends of tests that pytest-rerunfailures runs again.
_BOOM: dict[str, Any] = {
    "cicd.test.quarantined": False,
    "exception.type": "RuntimeError",
    "exception.message": "boom",
    "exception.stacktrace": "E   RuntimeError: boom",
}
_RESCUED = {**_BOOM, "cicd.test.flaky": True, "cicd.test.rerun_count": 1}
_FAILED_EACH_TIME = {**_BOOM, "cicd.test.rerun_count": 2, "cicd.test.retry_count": 2}


@pytest.mark.parametrize(
    ("result", "attributes", "conclusion", "needed"),
    [
        # The result is that of the first attempt, which failed.
        ("failed", {**_RESCUED, "cicd.test.retry_count": 1}, Conclusion.PASSED, True),
        ("failed", _FAILED_EACH_TIME, Conclusion.FAILED, False),
        # Its teardown failed, in each attempt or only in the first.
        ("passed", _FAILED_EACH_TIME, Conclusion.PASSED, False),
        ("passed", {**_BOOM, "cicd.test.retry_count": 1}, Conclusion.PASSED, False),
        # Its teardown failed first, and then the test.
        ("passed", {**_RESCUED, "cicd.test.retry_count": 1}, Conclusion.PASSED, True),
        # Nobody but the plugin ran it again, so it failed for pytest.
        ("failed", {**_RESCUED, "cicd.test.retry_count": 0}, Conclusion.FAILED, False),
    ],
)
def test_a_test_that_pytest_runs_again_needed_retries_if_it_both_failed_and_passed(
    result: str, attributes: dict[str, Any], conclusion: Conclusion, needed: bool
) -> None:
    span = make_span(result=result, attributes={"test.framework": "pytest", **attributes})
    execution = read_execution(span)
    assert (execution.conclusion, execution.needed_retries) == (conclusion, needed)
    has_failure = execution.failure_message is not None
    assert has_failure is (conclusion is Conclusion.FAILED)


def test_the_result_of_another_framework_is_that_of_the_last_attempt() -> None:
    attributes = {**_RESCUED, "test.framework": "vitest", "cicd.test.retry_count": 1}
    assert read_execution(make_span(attributes=attributes)).needed_retries
    failed = read_execution(make_span(result="failed", attributes=attributes))
    assert (failed.conclusion, failed.needed_retries) == (Conclusion.FAILED, False)
