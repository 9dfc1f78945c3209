"""Several cases of one test in a report of pytest, which pytest-rerunfailures leaves behind."""

from __future__ import annotations

import pytest

from tests.indexing.junit.reading import read, read_cases

PASSED = '<testcase classname="m" name="t"/>'
FAILED = '<testcase classname="m" name="t"><failure message="stuck"/></testcase>'
SKIPPED = '<testcase classname="m" name="t"><skipped/></testcase>'
TORN_DOWN = (
    '<testcase classname="m" name="t"><error message="failed on teardown with x"/></testcase>'
)
OTHER = '<testcase classname="m" name="u"/>'


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
