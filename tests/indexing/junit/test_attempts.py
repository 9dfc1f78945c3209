"""Several cases of one test, for the attempts of pytest or the expectations of testthat."""

from __future__ import annotations

import pytest

from indexing.models.executions import MAX_DURATION
from tests.indexing.junit.reading import read, read_cases

PASSED = '<testcase classname="m" name="t"/>'
FAILED = '<testcase classname="m" name="t"><failure message="stuck"/></testcase>'
SKIPPED = '<testcase classname="m" name="t"><skipped/></testcase>'
TORN_DOWN = (
    '<testcase classname="m" name="t"><error message="failed on teardown with x"/></testcase>'
)
OTHER = '<testcase classname="m" name="u"/>'

# As testthat writes its attributes.
TESTTHAT = (
    '<testsuite name="m" timestamp="2026-11-29T17:46:48Z" hostname="ci" tests="3" skipped="0" '
    'failures="1" errors="0" time="0.3">'
)
MET = '<testcase time="0.1" classname="m" name="t"/>'
NOT_MET = (
    '<testcase time="0.2" classname="m" name="t"><failure type="failure" message="{}"/></testcase>'
)
LEFT = '<testcase time="0" classname="m" name="t"><skipped message="Reason: later"/></testcase>'


def read_attempts(cases: str, suite: str = "pytest") -> list[tuple[str, bool]]:
    """The conclusions of `m.t`, each with whether it needed retries."""
    found = read_cases(f'<testsuites><testsuite name="{suite}">{cases}</testsuite></testsuites>')
    return [
        (str(each.conclusion), each.needed_retries) for each in found if each.test_name == "m.t"
    ]


@pytest.mark.parametrize(
    ("cases", "conclusion", "needed_retries"),
    [
        (PASSED, "passed", False),
        # Nothing in the first case says that this attempt failed.
        (PASSED + PASSED, "passed", True),
        (PASSED + PASSED + PASSED, "passed", True),
        (PASSED + PASSED + FAILED, "failed", False),
        (PASSED + SKIPPED, "skipped", False),
        (PASSED + FAILED + TORN_DOWN, "failed", False),
        # Another process ran the other test.
        (PASSED + OTHER + PASSED, "passed", True),
    ],
)
def test_the_attempts_of_a_test_are_one_execution(
    cases: str, conclusion: str, needed_retries: bool
) -> None:
    assert read_attempts(cases) == [(conclusion, needed_retries)]


def test_a_suite_of_pytest_is_known_by_its_name_or_that_of_the_report() -> None:
    document = f'<testsuites name="pytest tests"><testsuite name="unit">{PASSED * 2}</testsuite>'
    (case,) = read_cases(f"{document}</testsuites>")
    assert case.needed_retries


def test_equal_names_of_other_writers_are_executions_of_their_own() -> None:
    assert read_attempts(PASSED + PASSED + FAILED, suite="unit") == [
        ("passed", False),
        ("passed", False),
        ("failed", False),
    ]


def test_equal_names_of_different_suites_are_executions_of_their_own() -> None:
    suite = f'<testsuite name="pytest">{PASSED}</testsuite>'
    first, second = read_cases(f"<testsuites>{suite}{suite}</testsuites>")
    assert not first.needed_retries
    assert not second.needed_retries


def test_a_suite_within_another_does_not_change_how_that_one_goes_on() -> None:
    inner = f'<testsuite name="pytest">{PASSED * 2}</testsuite>'
    found = read_cases(f'<testsuite name="unit">{PASSED * 2}{inner}{PASSED * 2}</testsuite>')
    assert [each.needed_retries for each in found] == [False, False, True, False, False]


def test_a_suite_of_many_tests_loses_none() -> None:
    cases = "".join(f'<testcase name="t{number}"/>' for number in range(1_000))
    found = read_cases(f'<testsuite name="pytest">{cases}</testsuite>')
    assert [case.test_name for case in found] == [f"t{number}" for number in range(1_000)]
    assert len(read(f'<testsuite name="pytest">{cases}<testcase/></testsuite>')) == 1_001


def test_cases_keep_their_order_whatever_their_conclusions() -> None:
    cases = OTHER + FAILED + PASSED.replace('"t"', '"v"') + SKIPPED.replace('"t"', '"w"')
    found = read_cases(f'<testsuite name="pytest">{cases}</testsuite>')
    assert [case.test_name for case in found] == ["m.u", "m.t", "m.v", "m.w"]


def test_a_case_that_leaves_the_queue_does_not_hide_a_later_attempt() -> None:
    others = "".join(f'<testcase name="t{number}"/>' for number in range(255))
    assert read_attempts(FAILED + PASSED + others + PASSED) == [("failed", False), ("passed", True)]


@pytest.mark.parametrize(
    ("cases", "conclusion", "duration"),
    [
        (MET, "passed", 0.1),
        (MET + MET, "passed", 0.2),
        (NOT_MET.format("1 not equal to 2.") + MET + NOT_MET.format("FALSE"), "failed", 0.5),
        (MET + LEFT, "skipped", 0.1),
        (NOT_MET.format("1 not equal to 2.") + LEFT, "failed", 0.2),
        (LEFT + NOT_MET.format("1 not equal to 2."), "failed", 0.2),
        (MET.replace("0.1", "2e9") * 2, "passed", MAX_DURATION),
    ],
)
def test_the_expectations_of_a_test_of_testthat_are_one_execution(
    cases: str, conclusion: str, duration: float
) -> None:
    before = MET.replace('"t"', '"s"')
    first, test, last = read_cases(
        f"<testsuites>{TESTTHAT}{before}{cases}{OTHER}</testsuite></testsuites>"
    )
    assert [first.test_name, test.test_name, last.test_name] == ["m.s", "m.t", "m.u"]
    assert test.conclusion == conclusion
    assert test.duration == pytest.approx(duration)
    assert test.failure_message == ("1 not equal to 2." if conclusion == "failed" else None)


def test_the_expectations_of_the_last_test_of_a_suite_end_with_it() -> None:
    suite = f"{TESTTHAT}{MET}{NOT_MET.format('no')}</testsuite>"
    found = read_cases(f"<testsuites>{suite}{suite}<testsuite>{MET * 2}</testsuite></testsuites>")
    assert [each.conclusion for each in found] == ["failed", "failed", "passed", "passed"]
