"""Reports from real tools, with the counts of a person who read them."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest

from indexing.junit.cases import RefusedCase, ReportCase, ReportError
from indexing.junit.reader import read_report

SAMPLES = Path(__file__).parents[2] / "samples" / "junit"


@dataclass(frozen=True)
class Counts:
    """`retried` counts the passed tests that needed more than one attempt."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    retried: int = 0
    refused: int = 0


COUNTED = {
    "bazel__suite-logs.xml": Counts(failed=1),
    "catch2__report.xml": Counts(failed=1),
    "cunit__testFailure.xml": Counts(passed=3, failed=1),
    # One test in three attempts, written as three cases: together they give one verdict.
    "flaky_retries__flaky_all_failures.xml": Counts(failed=3),
    "flaky_retries__flaky_success_first.xml": Counts(passed=1, failed=2),
    "junit_flaky_failure__mixed_flaky_and_passed.xml": Counts(passed=3, retried=1),
    "maven_surefire_flaky__surefire-report.xml": Counts(passed=1, retried=1),
    "minimal-attributes.xml": Counts(passed=1, failed=2, skipped=1),
    # Its attributes claim 15,515 tests.
    "mocha__mocha.xml": Counts(passed=1),
    "multiple_failures__test_multiple_failures.xml": Counts(passed=1, failed=2, skipped=1),
    "nested__multi-level.xml": Counts(passed=3),
    "nextest__basic.xml": Counts(passed=2, failed=1),
    # Its attributes claim 6 tests.
    "no-cases-but-tests.xml": Counts(),
    "perl__result.xml": Counts(passed=1),
    "pytest__junit.fail.xml": Counts(passed=3, failed=1, skipped=1),
    "pytest__junit.gloo.elastic.xml": Counts(passed=10, skipped=4),
    "python__report.xml": Counts(passed=1, failed=2),
    "python__report_flaky.xml": Counts(passed=2, failed=2),
    "scalatest__TEST-uk.co.gresearch.spark.diff.DiffOptionsSuite.xml": Counts(passed=5),
    "tests__utilssurefire-reports__TEST-action.surefire.report.calc.StringUtilsTest.xml": Counts(
        passed=2, failed=2, skipped=1
    ),
    "testsuite-in-testsuite.xml": Counts(passed=5),
    "unsupported-unicode.xml": Counts(passed=1, failed=4, skipped=2),
    "with-xml-entities.xml": Counts(failed=2, skipped=2),
}
REFUSED = {
    "corrupt-junit__e2e-tests__corruptsf-reports__TEST-test.CorruptTest.xml": (
        "line 18: not well-formed XML: a CDATA section does not end"
    ),
    "non-junit.xml": (
        "line 2: not a JUnit report: its root is <suites>, "
        "where <testsuites> or <testsuite> belongs"
    ),
}


def count(cases: list[ReportCase | RefusedCase]) -> Counts:
    read = [case for case in cases if isinstance(case, ReportCase)]
    found = Counter(case.conclusion.value for case in read)
    return Counts(
        passed=found["passed"],
        failed=found["failed"],
        skipped=found["skipped"],
        retried=sum(case.needed_retries for case in read),
        refused=len(cases) - len(read),
    )


@pytest.mark.parametrize("name", COUNTED)
def test_a_report_gives_what_a_person_counts_in_it(name: str) -> None:
    with (SAMPLES / name).open("rb") as stream:
        assert astuple(count(list(read_report(stream)))) == astuple(COUNTED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_report_is_refused_with_its_reason(name: str) -> None:
    with (SAMPLES / name).open("rb") as stream, pytest.raises(ReportError) as refused:
        list(read_report(stream))
    assert str(refused.value) == REFUSED[name]


def test_every_sample_is_counted() -> None:
    assert {path.name for path in SAMPLES.glob("*.xml")} == {*COUNTED, *REFUSED}


# As cargo-nextest writes retries, with `--retries` and `--flaky-result`.
NEXTEST = """\
<testsuites name="nextest-run" tests="3" failures="1">
<testsuite name="crate" tests="3" failures="1">
<testcase name="steady" classname="crate" timestamp="2026-09-01T12:00:00Z" time="0.1"/>
<testcase name="flaky" classname="crate" timestamp="2026-09-01T12:00:01Z" time="0.2">
<flakyFailure timestamp="2026-09-01T12:00:00Z" time="0.1" type="test failure with exit code 101">
thread panicked<system-out>running 1 test</system-out></flakyFailure></testcase>
<testcase name="broken" classname="crate" timestamp="2026-09-01T12:00:00Z" time="0.1">
<failure type="test failure with exit code 101">thread panicked</failure>
<rerunFailure timestamp="2026-09-01T12:00:01Z" time="0.1" type="test failure">again</rerunFailure>
</testcase></testsuite></testsuites>
"""
# As Playwright's reporter writes with `includeRetries`.
PLAYWRIGHT = """\
<testsuites id="" name="" tests="4" failures="1" skipped="1" errors="1" time="9.1">
<testsuite name="login.spec.ts" timestamp="2026-09-01T12:00:00.000Z" hostname="chromium">
<testcase name="logs in" classname="login.spec.ts" time="1.2">
<flakyError message="Timeout 30000ms exceeded." type="TimeoutError" time="30.1">
<stackTrace><![CDATA[TimeoutError: Timeout 30000ms exceeded.]]></stackTrace></flakyError>
<flakyFailure message="expect(received).toBe(expected)" type="expect.toBe" time="1.1">
<stackTrace><![CDATA[Error: expect(received).toBe(expected)]]></stackTrace></flakyFailure>
</testcase>
<testcase name="logs out" classname="login.spec.ts" time="1.1">
<failure message="expect(received).toBe(expected)" type="expect.toBe"><![CDATA[Error]]></failure>
<rerunFailure message="" type="expect.toBe" time="1"><stackTrace/></rerunFailure></testcase>
<testcase name="has no rights" classname="login.spec.ts" time="2.2">
<error message="not found" type="Error"><![CDATA[Error: not found]]></error>
<rerunError message="" type="Error" time="1"><stackTrace/><system-out>x</system-out></rerunError>
</testcase>
<testcase name="is later" classname="login.spec.ts" time="0"><skipped></skipped></testcase>
</testsuite></testsuites>
"""


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (NEXTEST, Counts(passed=2, failed=1, retried=1)),
        (PLAYWRIGHT, Counts(passed=1, failed=2, skipped=1, retried=1)),
    ],
    ids=["nextest", "playwright"],
)
def test_attempts_within_a_report_are_evidence_and_not_further_executions(
    report: str, expected: Counts, tmp_path: Path
) -> None:
    path = tmp_path / "report.xml"
    path.write_text(report)
    with path.open("rb") as stream:
        assert count(list(read_report(stream))) == expected
