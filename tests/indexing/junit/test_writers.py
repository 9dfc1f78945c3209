"""What single tools mean by what they write."""

from __future__ import annotations

import tracemalloc

import pytest

from indexing.junit.cases import RefusedCase
from indexing.models.executions import Conclusion
from tests.indexing.junit.reading import read, read_cases, read_one

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


@pytest.mark.parametrize(
    "reason",
    [
        "Failed to change working directory",
        "Fixture dependency failed",
        "Insufficient resources",
        "Invalid Test Properties",
        "Missing Configuration",
        "Required Files Missing",
        "Unable to find executable",
    ],
)
def test_a_test_that_ctest_could_not_start_has_failed(reason: str) -> None:
    case = read_one(f'<testcase name="n" status="notrun"><skipped message="{reason}"/></testcase>')
    assert (case.conclusion, case.failure_message) == (FAILED, reason)
    case = read_one(f'<testcase name="n"><skipped message="{reason}"/></testcase>')
    assert (case.conclusion, case.failure_message) == (SKIPPED, None)


@pytest.mark.parametrize("reason", ["SKIP_RETURN_CODE=77", "SKIP_REGULAR_EXPRESSION_MATCHED"])
def test_a_test_that_asked_ctest_to_be_skipped_is_skipped(reason: str) -> None:
    case = read_one(f'<testcase name="n" status="notrun"><skipped message="{reason}"/></testcase>')
    assert (case.conclusion, case.failure_message) == (SKIPPED, None)


@pytest.mark.parametrize(
    "skipped",
    [
        '<skipped type="todo" message="later"/>',
        '<skipped message="TEST_CASE tagged with !mayfail"/>',
    ],
    ids=["node:test", "Catch2"],
)
def test_a_failure_that_the_runner_does_not_count_is_a_skip(skipped: str) -> None:
    case = read_one(
        f'<testcase name="n">{skipped}<failure type="T" message="a">b</failure><error/></testcase>'
    )
    assert case.conclusion is SKIPPED
    assert (case.failure_type, case.failure_message, case.failure_trace) == (None, None, None)


@pytest.mark.parametrize(
    ("written", "inside", "name", "retried"),
    [
        ("logs in", "", "logs in", False),
        ("logs in (unstable)", "", "logs in", True),
        ("logs in (unstable)", "<failure/>", "logs in", False),
        ("logs in (screenshots: /tmp/a (1)/b)", "", "logs in", False),
        ("logs in (unstable) (screenshots: /tmp/a)", "", "logs in", True),
        ("(unstable) logs in", "", "(unstable) logs in", False),
        ("shows (screenshots: none) here", "", "shows (screenshots: none) here", False),
    ],
)
def test_what_testcafe_writes_behind_a_name_is_no_part_of_it(
    written: str, inside: str, name: str, retried: bool
) -> None:
    test_case = f'<testcase classname="Page" file="a.js" name="{written}">{inside}</testcase>'
    (case,) = read_cases(f'<testsuite name="TestCafe Tests: Chrome">{test_case}</testsuite>')
    assert (case.test_name, case.function_name) == (f"Page.{name}", name)
    assert case.needed_retries is retried
    other = read_one(test_case)
    assert (other.test_name, other.needed_retries) == (f"Page.{written}", False)


@pytest.mark.parametrize("class_name", ["", "."])
def test_a_go_package_that_failed_outside_of_its_tests_has_its_own_name(class_name: str) -> None:
    # What gotestsum writes for a package that cannot be compiled, whatever the package.
    test_case = f'<testcase classname="{class_name}" name="TestMain"><failure/></testcase>'
    cases = read_cases(
        f'<testsuites><testsuite name="acme/door">{test_case}</testsuite>'
        f'<testsuite name="acme/lock">{test_case}</testsuite></testsuites>'
    )
    assert [case.test_name for case in cases] == ["acme/door.TestMain", "acme/lock.TestMain"]
    other = '<testsuite name="acme/door"><testcase classname="acme" name="TestMain"/></testsuite>'
    assert [case.test_name for case in read_cases(other)] == ["acme.TestMain"]
    assert read_one('<testcase name="TestMain"/>').test_name == "TestMain"


def test_tests_of_node_have_the_names_of_their_suites() -> None:
    # What node:test writes: every class name is "test", and the names of describe() are suites.
    suite = '<testsuite name="{}" disabled="0" errors="0" tests="1" hostname="h">{}</testsuite>'
    opens = '<testcase name="opens" classname="test"/>'
    door = suite.format("door", suite.format("front", opens) + opens)
    cases = read_cases(f"<testsuites>{door}{suite.format('lock', opens)}{opens}</testsuites>")
    names = ["door > front.opens", "door.opens", "lock.opens", "test.opens"]
    assert [case.test_name for case in cases] == names
    # What pytest writes for a module with the name test.
    (case,) = read_cases(f'<testsuite name="pytest" errors="0" hostname="h">{opens}</testsuite>')
    assert case.test_name == "test.opens"


def test_names_of_nested_suites_take_no_more_memory_than_a_name_may_have() -> None:
    begin = f'<testsuite name="{"n" * 8_000}" disabled="0" errors="0" hostname="h">'
    case = '<testcase name="opens" classname="test"/>'
    document = f"{begin * 200}{case}{'</testsuite>' * 200}"
    tracemalloc.start()
    (refused,) = read(document)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(refused, RefusedCase)
    assert peak < 10 * len(document)


def test_a_php_data_provider_that_failed_has_the_name_of_its_test() -> None:
    # What PHPUnit 9 writes, whatever the provider.
    error = '<error type="PHPUnit\\Framework\\Error">Error</error>'
    document = f'<testsuite name="HingeTest::testOpens"><testcase name="Error">{error}</testcase>'
    (case,) = read_cases(f"{document}</testsuite>")
    assert (case.test_name, case.function_name) == ("HingeTest::testOpens.Error", "Error")
    assert (
        read_one('<testcase name="Error"><error type="TypeError"/></testcase>').test_name == "Error"
    )


@pytest.mark.parametrize("risk", ["RiskyTestError", "OutputError"])
def test_a_risky_test_of_phpunit_has_passed_unless_it_failed_too(risk: str) -> None:
    risky = f'<error type="PHPUnit\\Framework\\{risk}">no assertions</error>'
    case = read_one(f'<testcase name="n">{risky}</testcase>')
    assert (case.conclusion, case.failure_type, case.failure_message) == (PASSED, None, None)
    failure = '<failure type="T">want 1</failure>'
    for parts in (risky + failure, failure + risky):
        case = read_one(f'<testcase name="n">{parts}</testcase>')
        assert (case.conclusion, case.failure_message) == (FAILED, "want 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("    a_test.go:4: want 1", "a_test.go:4: want 1"),
        ("=== RUN   TestA\n=== CONT  TestA\n    a_test.go:4: want 1\n", "a_test.go:4: want 1"),
        ("=== RUN   TestA\n--- FAIL: TestA (0.15s)\n", "--- FAIL: TestA (0.15s)"),
        ("=== RUN   TestA", "=== RUN   TestA"),
        ("", "Failed"),
    ],
)
def test_the_message_of_go_is_the_text_of_a_failure(text: str, message: str) -> None:
    # gotestsum and go-junit-report call each failure "Failed", so all would be alike.
    failure = f'<failure message="Failed">{text}</failure>'
    assert read_one(f'<testcase name="n">{failure}</testcase>').failure_message == message


@pytest.mark.parametrize(
    "message",
    [
        # pytest, for a module that it cannot import.
        "collection failure",
        # nose2, for every failure.
        "test failure",
        # Boost.Test, for assertions and exceptions.
        "failure",
        "unexpected exception",
        # behave, for a step without a definition.
        "None",
        # Erlang's Common Test.
        "Test opens in door_SUITE failed!",
        # terraform test, and helm-unittest for what it cannot render.
        "Encountered an error",
        "Error",
    ],
)
def test_the_text_is_the_message_where_all_failures_have_the_same_one(message: str) -> None:
    failure = f'<failure message="{message}">\nstuck: 1\n</failure>'
    assert read_one(f'<testcase name="n">{failure}</testcase>').failure_message == "stuck: 1"
    empty = f'<failure message="{message}"/>'
    assert read_one(f'<testcase name="n">{empty}</testcase>').failure_message == message
    longer = f'<failure message="{message} of a door">stuck</failure>'
    assert read_one(f'<testcase name="n">{longer}</testcase>').failure_message != "stuck"


PLAYWRIGHT_TEXT = """
  door.spec.ts:4:7 \u203a door \u203a opens {rule}

    Error: expect(received).toBe(expected)

    Expected: 2

      3 |
    > 4 |   test('opens', () => expect(1).toBe(2));
        |                                 ^
        at /t/door.spec.ts:4:35
{retry}"""


@pytest.mark.parametrize("rule", ["\u2500" * 40, ""])
@pytest.mark.parametrize(
    "retry", ["", "\n    Retry #1 \u2500\u2500\u2500\u2500\n\n    Error: other\n"]
)
def test_the_message_of_playwright_is_the_error(rule: str, retry: str) -> None:
    stated = 'message="door.spec.ts:4:7 opens" type="FAILURE"'
    text = PLAYWRIGHT_TEXT.format(rule=rule, retry=retry).replace(">", "&gt;")
    case = read_one(f'<testcase name="door"><failure {stated}>{text}</failure></testcase>')
    assert case.failure_message == "Error: expect(received).toBe(expected)\n\nExpected: 2"
    # A test that should fail and passed has no error.
    heading = text.partition("\n\n")[0]
    case = read_one(f'<testcase name="door"><failure {stated}>{heading}\n</failure></testcase>')
    assert case.failure_message == "door.spec.ts:4:7 opens"


@pytest.mark.parametrize(
    "retry", ["    attachment #1: trace", "    Retry #1", "        at /t/door.ts:1:2"]
)
def test_the_error_of_playwright_ends_without_a_line_of_the_source(retry: str) -> None:
    stated = 'message="door.spec.ts:4:7 opens" type="FAILURE"'
    text = f"  heading\n\n    stuck\n\n{retry}\n\n    stuck"
    case = read_one(f'<testcase name="door"><failure {stated}>{text}</failure></testcase>')
    assert case.failure_message == "stuck"


def test_a_test_of_ginkgo_that_passed_in_a_later_attempt_needed_retries() -> None:
    log = "[FAILED] stuck&#xA;&#xA;Attempt #1 Failed.  Retrying ↺ @ 11/29/26 14:32:07.379&#xA;"
    case = '<testcase classname="Door" name="[It] opens" status="{}">{}</testcase>'
    error_output = f"<system-err>{log}</system-err>"
    assert read_one(case.format("passed", error_output)).needed_retries
    failed = case.format("failed", f'<failure message="stuck"/>{error_output}')
    assert not read_one(failed).needed_retries
    assert not read_one(case.format("passed", "<system-err>Attempt #1</system-err>")).needed_retries
    assert not read_one(case.format("passed", f"<system-out>{log}</system-out>")).needed_retries


@pytest.mark.parametrize(
    ("class_name", "test_name"),
    [
        ("spec/hinge_spec.lua:12", "spec/hinge_spec.lua.opens"),
        ("spec/hinge_spec.moon:7", "spec/hinge_spec.moon.opens"),
        ("spec/hinge_spec.rb:12", "spec/hinge_spec.rb:12.opens"),
        (".lua:12", ".lua:12.opens"),
        ("a:1.lua", "a:1.lua.opens"),
    ],
)
def test_the_name_of_a_test_of_busted_has_no_line(class_name: str, test_name: str) -> None:
    case = f'<testcase classname="{class_name}" name="opens"/>'
    assert read_one(case).test_name == test_name


@pytest.mark.parametrize(
    ("skipped", "failure_type", "message"),
    [
        (
            '<skipped type="timeout">\nin function timer:sleep/1\n</skipped>',
            "timeout",
            "in function timer:sleep/1",
        ),
        ('<skipped type="timeout"/>', "timeout", None),
        # The time of its group ended, or its process was killed.
        ('<skipped type="unknown">\nundefined    </skipped>', "unknown", "undefined"),
    ],
)
def test_a_test_that_eunit_could_not_finish_has_failed(
    skipped: str, failure_type: str, message: str | None
) -> None:
    case = read_one(f'<testcase time="0.000" name="door_tests:0 opens_test">{skipped}</testcase>')
    assert case.conclusion == "failed"
    assert (case.failure_type, case.failure_message) == (failure_type, message)


@pytest.mark.parametrize(
    "case",
    [
        '<testcase name="door:12 opens"><skipped message="later"/></testcase>',
        '<testcase classname="door" name="door:12 opens"><skipped type="timeout"/></testcase>',
        '<testcase name="door.opens"><skipped type="pytest.skip"/></testcase>',
    ],
)
def test_a_skipped_test_of_another_writer_is_no_test_of_eunit(case: str) -> None:
    assert read_one(case).conclusion == "skipped"


@pytest.mark.parametrize(
    ("file", "name", "text", "message"),
    [
        # PHPUnit.
        ("/t/D.php", "testA", "T\\D::testA\nstuck\n\n/t/D.php:5", "stuck\n\n/t/D.php:5"),
        ("/t/D.php", "testA with #1", "T\\D::testA with #1 (3, 'b')\nstuck", "stuck"),
        ("/t/D.php", "testA", "T\\D::testA\n", "T\\D::testA"),
        # Pest.
        ("t/D.php::it opens", "it opens", "it opensstuck\nat t/D.php:5", "stuck\nat t/D.php:5"),
        ("t/D.php", "it opens", "it opens badly", "it opens badly"),
    ],
)
def test_the_message_of_php_does_not_begin_with_the_name_of_the_test(
    file: str, name: str, text: str, message: str
) -> None:
    attributes = f'name="{name}" file="{file}" class="T\\D" classname="T.D"'
    case = read_one(f'<testcase {attributes}><failure type="x">{text}</failure></testcase>')
    assert case.failure_message == message
