"""Reports of many producers, and of attackers, read case by case."""

from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from indexing.failures.texts import MESSAGE_MAX_LENGTH
from indexing.junit.cases import (
    RefusedCase,
    ReportCase,
)
from indexing.junit.reader import read_report
from indexing.models.executions import Conclusion
from indexing.names import STORED_NAME_MAX_BYTES
from tests.indexing.junit.reading import read, read_cases, read_one

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


def test_a_name_is_the_class_name_and_the_name() -> None:
    assert read_one('<testcase classname="a.B" name="c"/>').test_name == "a.B.c"
    assert read_one('<testcase name="c"/>').test_name == "c"
    assert read_one('<testcase classname="" name="c"/>').test_name == "c"
    assert read_one('<testcase classname="a.B" name=" "/>').test_name == "a.B"


def test_a_case_without_a_name_is_refused_by_line_and_the_others_are_read() -> None:
    first, second, third = read(
        '<testsuite name="s">\n<testcase name="a"/>\n<testcase time="1"/>\n<testcase name="b"/>'
        "</testsuite>"
    )
    assert isinstance(first, ReportCase)
    assert second == RefusedCase(3, "the name of a test must not be empty")
    assert isinstance(third, ReportCase)


def test_the_failure_of_a_case_without_a_name_is_in_the_reason() -> None:
    (refused,) = read(
        '<testsuite><testcase name=""><failure>set-up</failure></testcase></testsuite>'
    )
    assert isinstance(refused, RefusedCase)
    assert refused.reason == "the name of a test must not be empty; the test failed: set-up"


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ('<error message="cannot be loaded" type="E">at …</error>', "cannot be loaded"),
        ('<failure type="E"/>', "E"),
        ("<error/><error message='2'/>", "no message"),
        ("<error message=' '> it\nbroke </error><error>2</error>", "it\nbroke"),
        ("<error/><error>2</error>", "2"),
        (f'<error message="{"x" * 300}"/>', "x" * 200),
    ],
)
def test_a_suite_that_fails_outside_of_its_cases_is_refused(failure: str, message: str) -> None:
    passed, refused, other = read(
        f'<testsuites><testsuite><testcase name="a"/>\n{failure}</testsuite>'
        '<testcase name="b"><failure/></testcase></testsuites>'
    )
    assert isinstance(passed, ReportCase)
    assert refused == RefusedCase(2, f"a suite failed outside of its test cases: {message}")
    assert isinstance(other, ReportCase)


@pytest.mark.parametrize(
    ("failed", "status", "is_refused"),
    [(1, 1, False), (3, 2, False), (3, 3, False), (1, 2, True), (1, 255, True), (0, 1, True)],
)
def test_failed_tests_explain_the_status_of_a_script_of_perl(
    failed: int, status: int, is_refused: bool
) -> None:
    """A script ends with the number of its failed tests, so the writer marks its suite, too."""
    error = f'<error message="Dubious, test returned {status} (wstat {status * 256}, 0x1)"/>'
    cases = '<testcase name="a"><failure/></testcase>' * failed
    found = read(f"<testsuites><testsuite>{cases}{error}</testsuite></testsuites>")
    assert [isinstance(each, RefusedCase) for each in found[failed:]] == [True] * is_refused


@pytest.mark.parametrize(
    "failed",
    [
        '<testcase name="a"><failure/></testcase>',
        '<testcase name="a" status="failed"/>',
        '<testsuite><testcase name="a"><failure/></testcase></testsuite>',
    ],
)
def test_a_failed_case_does_not_hide_another_failure_of_its_suite(failed: str) -> None:
    # What busted writes for a test whose set-up failed, beside one that failed itself.
    case, refused = read(f"<testsuite>{failed}<error>set-up broke</error></testsuite>")
    assert isinstance(case, ReportCase)
    assert isinstance(refused, RefusedCase)
    assert refused.reason == "a suite failed outside of its test cases: set-up broke"


def test_a_name_may_have_8000_bytes_and_no_more() -> None:
    longest = "é" * (STORED_NAME_MAX_BYTES // 2)
    assert read_one(f'<testcase name="{longest}"/>').test_name == longest
    (refused,) = read(f'<testsuite>\n<testcase name="{longest}x"/></testsuite>')
    assert isinstance(refused, RefusedCase)
    assert refused.line == 2
    assert "8000 bytes" in refused.reason


@pytest.mark.parametrize(
    ("inside", "conclusion", "retried"),
    [
        ("", PASSED, False),
        ("<failure/>", FAILED, False),
        ("<error/>", FAILED, False),
        ("<failure/><failure/><error/>", FAILED, False),
        ("<skipped/>", SKIPPED, False),
        ("<skipped/><error/>", FAILED, False),
        ("<failure/><rerunFailure/><rerunError/>", FAILED, False),
        ("<flakyFailure/>", PASSED, True),
        ("<flakyError/><flakyFailure/>", PASSED, True),
        ("<flakyFailure/><failure/>", FAILED, False),
        ("<system-out>&lt;failure/></system-out>", PASSED, False),
        ("<system-out><failure/><testcase name='x'/></system-out>", PASSED, False),
        ("<properties><property name='failure' value='1'/></properties>", PASSED, False),
    ],
)
def test_a_conclusion_is_what_the_children_say(
    inside: str, conclusion: Conclusion, retried: bool
) -> None:
    case = read_one(f'<testcase name="n">{inside}</testcase>')
    assert (case.conclusion, case.needed_retries) == (conclusion, retried)


@pytest.mark.parametrize(
    "attribute",
    ['status="notrun"', 'status="Disabled"', 'status="Inconclusive"', 'result="skipped"'],
)
def test_a_disabled_test_is_skipped(attribute: str) -> None:
    assert read_one(f'<testcase name="n" {attribute}/>').conclusion is SKIPPED
    assert read_one(f'<testcase name="n" {attribute}><error/></testcase>').conclusion is FAILED


def test_a_failure_has_its_type_and_message() -> None:
    case = read_one(
        '<testcase name="n"><failure type="T" message="first">body</failure>'
        '<error type="U" message="second"/></testcase>'
    )
    assert (case.failure_type, case.failure_message) == ("T", "first")
    case = read_one('<testcase name="n"><failure message="">\n  bo<b>d</b>y\n</failure></testcase>')
    assert (case.failure_type, case.failure_message) == (None, "body")
    case = read_one('<testcase name="n"><failure/></testcase>')
    assert (case.failure_type, case.failure_message) == (None, None)


def test_the_message_may_follow_a_failure_that_says_nothing() -> None:
    # What WebdriverIO writes for a failed test, with its error output behind both.
    case = read_one('<testcase name="n"><failure/><error message="stuck"/></testcase>')
    assert (case.conclusion, case.failure_message) == (FAILED, "stuck")
    case = read_one(
        '<testcase name="n"><failure> </failure><error type="T">body</error></testcase>'
    )
    assert (case.failure_type, case.failure_message) == ("T", "body")


def test_a_failure_message_is_cut() -> None:
    log = "x" * (MESSAGE_MAX_LENGTH * 3)
    case = read_one(f'<testcase name="n"><failure>{log}</failure></testcase>')
    assert case.failure_message == log[:MESSAGE_MAX_LENGTH]
    case = read_one(f'<testcase name="n"><failure message="{log}"/></testcase>')
    assert case.failure_message == log[:MESSAGE_MAX_LENGTH]


def test_entities_of_xml_itself_are_read() -> None:
    case = read_one('<testcase name="a &amp; b &#38;amp; &lt;c&gt; &#233;"/>')
    assert case.test_name == "a & b &amp; <c> é"


def test_a_timestamp_comes_from_the_nearest_suite_that_has_a_readable_one() -> None:
    outer, inner, own = read_cases(
        '<testsuites timestamp="2026-01-01T00:00:00">'
        '<testsuite timestamp="soon"><testcase name="a"/></testsuite>'
        '<testsuite timestamp="2026-01-02T00:00:00" file="s.py"><testsuite><testcase name="b"/>'
        '<testcase name="c" timestamp="2026-01-03T00:00:00+01:00" file="c.py"/>'
        "</testsuite></testsuite></testsuites>"
    )
    assert outer.timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert (inner.timestamp, inner.filepath) == (datetime(2026, 1, 2, tzinfo=UTC), "s.py")
    assert (own.timestamp, own.filepath) == (datetime(2026, 1, 2, 23, tzinfo=UTC), "c.py")


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("test/hinge_test.exs:12", "test/hinge_test.exs"),
        ("tests/HingeTest.php::it opens :3", "tests/HingeTest.php"),
        (r"C:\tests\HingeTest.php", r"C:\tests\HingeTest.php"),
        ("src/hinge::tests.rs", "src/hinge::tests.rs"),
        (":12", None),
        ("./spec/hinge_spec.rb", "spec/hinge_spec.rb"),
        ("./spec/hinge_spec.rb:7", "spec/hinge_spec.rb"),
        ("../spec/hinge_spec.rb", "../spec/hinge_spec.rb"),
        ("./", None),
    ],
)
def test_the_path_of_a_file_has_nothing_around_it(written: str, path: str | None) -> None:
    assert read_one(f'<testcase name="t" file="{written}"/>').filepath == path


def test_the_zero_of_a_clock_hides_no_time_of_the_suite() -> None:
    # What GoogleTest writes for a disabled test.
    (case,) = read_cases(
        '<testsuite timestamp="2026-08-01T10:00:00"><testcase name="DISABLED_b" status="notrun"'
        ' result="suppressed" timestamp="1970-01-01T00:00:00.000"/></testsuite>'
    )
    assert case.timestamp == datetime(2026, 8, 1, 10, tzinfo=UTC)


def test_cases_are_counted_and_counters_are_not_looked_at() -> None:
    cases = read_cases('<testsuite tests="9" failures="9"><testcase name="a"/></testsuite>')
    assert [case.conclusion for case in cases] == [PASSED]


def test_namespaces_do_not_matter() -> None:
    document = (
        '<j:testsuite xmlns:j="urn:x"><j:testcase name="n"><j:error/></j:testcase></j:testsuite>'
    )
    assert [case.conclusion for case in read_cases(document)] == [FAILED]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1", "utf-16", "windows-1252"])
def test_encodings_are_read_as_declared(encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    document = (
        f'<?xml version="1.0" encoding="{declared}"?>\n'
        '<testsuite>\n<testcase name="é"/></testsuite>'
    )
    (case,) = read_cases(document.encode(encoding))
    assert case.test_name == "é"
    assert case.line == (None if encoding == "utf-16" else 3)


@given(
    st.lists(st.sampled_from(["\n", "log", "<a\nb='1'\n/>", "<a>\n</a>", "<!--\n<-->"])),
    st.integers(1, 80),
)
def test_line_numbers_are_right_however_the_bytes_arrive(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    document = f"<testsuite>{text}<testcase\nname='a'\n/>{text}<testcase/></testsuite>"

    class Slow(io.BytesIO):
        def read(self, most: int | None = None, /) -> bytes:
            return super().read(min(size, most or size))

    first, second = read_report(Slow(document.encode()))
    lines = text.count("\n")
    assert (first.line, second.line) == (3 + lines, 3 + 2 * lines)


# Text that XML can contain and that a parser does not normalise within an attribute.
xml_text = st.text(
    st.characters(min_codepoint=0x20, exclude_categories=["Cs"], exclude_characters="\ufffe\uffff"),
    min_size=1,
    max_size=20,
).filter(lambda text: not text.isspace())


@settings(max_examples=100)
@given(st.lists(st.tuples(xml_text, xml_text, st.sampled_from(["", "failure", "skipped"]))))
def test_what_a_writer_wrote_comes_back(rows: list[tuple[str, str, str]]) -> None:
    suite = etree.Element("testsuite")
    for class_name, name, child in rows:
        case = etree.SubElement(suite, "testcase", classname=class_name, name=name)
        if child:
            etree.SubElement(case, child)
    expected = {"": PASSED, "failure": FAILED, "skipped": SKIPPED}
    assert [(case.test_name, case.conclusion) for case in read_cases(etree.tostring(suite))] == [
        (f"{class_name}.{name}", expected[child]) for class_name, name, child in rows
    ]


SUITE_WITH_TEARDOWN = """
import pytest

@pytest.fixture
def hinge():
    yield
    raise RuntimeError("stuck")

def test_fails_twice(hinge):
    assert False

def test_fails_at_the_end(hinge):
    pass

def test_passes():
    pass
"""


def test_a_failure_and_a_teardown_error_of_pytest_are_one_execution(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE_WITH_TEARDOWN, encoding="utf-8")
    report = tmp_path / "report.xml"
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    subprocess.run(
        [*pytest_run, f"--junitxml={report}", str(tmp_path)], cwd=tmp_path, capture_output=True
    )
    assert report.read_bytes().count(b"<testcase ") == 4
    with report.open("rb") as stream:
        cases = [case for case in read_report(stream) if isinstance(case, ReportCase)]
    assert [(case.function_name, case.conclusion.value) for case in cases] == [
        ("test_fails_twice", "failed"),
        ("test_fails_at_the_end", "failed"),
        ("test_passes", "passed"),
    ]
    assert cases[0].failure_message != cases[1].failure_message


def test_cases_of_other_processes_may_stand_between_a_failure_and_its_teardown_error() -> None:
    failed = '<testcase name="t"><failure message="assert"/></testcase>'
    torn_down = (
        '<testcase name="t"><error message="failed on teardown with &quot;x&quot;"/></testcase>'
    )
    other = '<testcase name="u"/>'
    cases = read_cases(f"<testsuite>{failed}{other}{torn_down}{torn_down}</testsuite>")
    # The last one is another attempt.
    assert [case.test_name for case in cases] == ["t", "u", "t"]
    # Another suite is another run of the test.
    cases = read_cases(
        f"<testsuites><testsuite>{failed}{other}</testsuite>"
        f"<testsuite>{torn_down}</testsuite></testsuites>"
    )
    assert [case.test_name for case in cases] == ["t", "u", "t"]
