"""Converts the parser's events of a JUnit document into cases; reads no bytes itself.

There is no binding schema, so it accepts what common writers produce: suites are nested, and
attributes are missing. Counters are often wrong, so they are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from indexing.errors import InvalidValueError
from indexing.failures.texts import cut_message, cut_type
from indexing.failures.traces import TraceBuffer, pack_trace
from indexing.junit.attempts import AttemptMerger
from indexing.junit.cases import (
    MAX_DEPTH,
    MAX_DISTINCT_NAMES,
    MAX_ELEMENTS,
    SHOWN_MESSAGE_LENGTH,
    RefusedCase,
    ReportCase,
    ReportError,
)
from indexing.junit.messages import MessageBuffer, drop_php_name, find_message, says_nothing
from indexing.junit.suites import NODE_CLASS, OpenSuite, find_class_name
from indexing.junit.values import find_stated, parse_duration
from indexing.models.executions import FILEPATH_MAX_LENGTH, Conclusion
from indexing.names import check_stored_name

_SUITES: Final = frozenset({"testsuites", "testsuite"})
_CASE: Final = "testcase"
_FAILURES: Final = frozenset({"failure", "error"})
# Failed attempts before the final one, as Surefire, nextest and Playwright mark them.
_RETRIES: Final = frozenset({"flakyFailure", "flakyError", "rerunFailure", "rerunError"})
_ERROR_OUTPUT: Final = "system-err"
_OUTPUT: Final = "system-out"
_SKIPPED: Final = frozenset({"skipped", "ignored", "disabled"})
# GoogleTest and CTest mark a disabled test by this attribute alone, without an element.
_NOT_RUN: Final = {
    # NUnit's style sheet for JUnit writes its inconclusive tests like this.
    "status": frozenset({"notrun", "disabled", "skipped", "inconclusive"}),
    "result": frozenset({"suppressed", "skipped"}),
}
# CTest writes these tests as skipped, but counts them as failed: https://github.com/Kitware/CMake,
# cmCTestRunTest.cxx and cmCTestMultiProcessHandler.cxx.
_NOT_STARTED: Final = frozenset(
    {
        "Failed to change working directory",
        "Fixture dependency failed",
        "Insufficient resources",
        "Invalid Test Properties",
        "Missing Configuration",
        "Required Files Missing",
        "Unable to find executable",
    }
)
# With such a `<skipped>`, the runner does not count the failure that follows it. Others write
# `<skipped>` for a failure that counts. The type is node:test's, the message Catch2's for
# `[!mayfail]` and `[!shouldfail]`.
_EXPECTED_TO_FAIL: Final = {
    "type": frozenset({"todo"}),
    "message": frozenset({"test_case tagged with !mayfail"}),
}
# Erlang's EUnit skips no test. It writes one that took too long (five seconds, by default) or whose
# process died as skipped, and ends with an error. It names its tests like this.
# https://github.com/erlang/otp, lib/eunit/src/eunit_surefire.erl
_EUNIT_NAME: Final = re.compile(r"[^\s:]+:[0-9]+ \S")
# PHPUnit up to 9 writes these for risky tests, which it does not count as failed: exit status 0.
_RISKY: Final = frozenset(
    f"PHPUnit\\Framework\\{name}"
    for name in (
        "CoveredCodeNotExecutedException",
        "MissingCoversAnnotationException",
        "OutputError",
        "RiskyTestError",
        "UnintentionallyCoveredCodeError",
    )
)
# Other writers mark a failed test only by these attributes. Counting it as passed would be the
# worst mistake.
_FAILED: Final = dict.fromkeys(_NOT_RUN, frozenset({"failed", "failure", "fail", "error"}))

# TestCafe's reporter writes these behind the name of a test, in this order: an unstable test needed
# retries. https://github.com/DevExpress/testcafe-reporter-xunit
_TESTCAFE_UNSTABLE: Final = " (unstable)"
_TESTCAFE_SCREENSHOTS: Final = " (screenshots: "

# Ginkgo writes this into the log of a test after each failed attempt. Nothing else tells of a
# retry: https://github.com/onsi/ginkgo, reporters/default_reporter.go
_GINKGO_RETRY: Final = re.compile(r"^Attempt #[0-9]+ Failed\.  Retrying", re.MULTILINE)

# What gotestsum calls a package that failed outside of its tests, and the class names that it gives
# that: only the suite has the name of the package. One that cannot be compiled is such a package.
# https://github.com/gotestyourself/gotestsum, internal/junitxml/report.go
_GO_PACKAGE: Final = "TestMain"
_NO_CLASS: Final = frozenset({None, "."})
# What PHPUnit up to 9 says of a data provider that failed. All of them are called `Error`.
_PHP_PROVIDER: Final = "PHPUnit\\Framework\\Error"

# How many characters of an untrusted element name an error message repeats.
_SHOWN_NAME_LENGTH: Final = 80


@dataclass(slots=True)
class _OpenCase:
    """A `testcase` that has not ended yet, with the values from its children so far."""

    attributes: Mapping[str, str]
    line: int | None
    failed: bool = False
    skipped: bool = False
    may_fail: bool = False
    retried: bool = False
    failure_type: str | None = None
    failure_message: str | None = None
    body: TraceBuffer | None = None
    error_output: TraceBuffer | None = None
    # Only of a failed case: most cases pass, and their logs are long.
    output: TraceBuffer | None = None


class CaseCollector:
    """The target of a streaming parser: receives its callbacks, adds cases to `finished`.

    The owner sets `line` before it feeds that line, and empties `finished`. Every callback sets
    `was_called`, which the owner may clear. Raises `ReportError` if the document is not a report.
    """

    def __init__(self) -> None:
        self.line: int | None = 1
        self.was_called = False
        self.finished: list[ReportCase | RefusedCase] = []
        self._depth = 0
        self._elements = 0
        # Everything below this depth is skipped: logs, properties, extensions.
        self._passed_over_from: int | None = None
        self._suites = [OpenSuite()]
        self._case: _OpenCase | None = None
        # The buffers that collect the text of the current element, if it is needed.
        self._message: MessageBuffer | None = None
        self._text: TraceBuffer | None = None
        self._names: set[str] = set()
        self._attempts = AttemptMerger(self.finished.append)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.was_called = True
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ReportError(f"elements nest more than {MAX_DEPTH} deep", self.line)
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise ReportError(f"more than {MAX_ELEMENTS} elements", self.line)
        self._remember_names(tag, *attributes)
        if self._passed_over_from is not None:
            return
        name = tag.rpartition("}")[2]
        if self._case is not None:
            self._start_in_case(self._case, name, attributes)
        elif name in _SUITES:
            suite = self._suites[-1].begin(attributes)
            self._suites.append(suite)
            self._enter_suite(suite)
        elif self._depth == 1:
            raise ReportError(
                f"not a JUnit report: its root is <{_shorten(name)}>, "
                "where <testsuites> or <testsuite> belongs",
                self.line,
            )
        elif name == _CASE:
            self._case = _OpenCase(attributes, self.line)
        else:
            if name in _FAILURES:
                self._suites[-1].note_failure(attributes, self.line)
                self._message = MessageBuffer()
            self._passed_over_from = self._depth

    def end(self, _tag: str) -> None:
        self.was_called = True
        depth = self._depth
        self._depth -= 1
        if self._passed_over_from is not None:
            if self._passed_over_from == depth:
                self._passed_over_from = None
                self._end_body()
        elif self._case is not None:
            self._end_case(self._case)
            self._case = None
        else:
            self._end_suite(self._suites.pop())

    def data(self, text: str) -> None:
        self.was_called = True
        if self._text is not None:
            self._text.add(text)
        if self._message is not None:
            self._message.add(text)

    def comment(self, _text: str) -> None:
        self.was_called = True

    def pi(self, _target: str, _data: str | None = None) -> None:
        self.was_called = True

    def start_ns(self, prefix: str | None, uri: str | None) -> None:
        self.was_called = True
        self._remember_names(prefix or "", uri or "")

    def doctype(self, _name: str, _public_id: str | None, _system_url: str | None) -> None:
        raise ReportError(
            "a document type declaration (<!DOCTYPE>) is refused, with all entities that it "
            "may declare",
            self.line,
        )

    def close(self) -> None:
        """Do nothing: `finished` already has all cases."""

    def _end_case(self, case: _OpenCase) -> None:
        finished = self._finish(case)
        if case.failed or (
            isinstance(finished, ReportCase) and finished.conclusion is Conclusion.FAILED
        ):
            self._suites[-1].failed_cases += 1
        self._attempts.add(finished)

    def _end_suite(self, suite: OpenSuite) -> None:
        refused = suite.end()
        self._enter_suite(self._suites[-1])
        if refused is not None:
            self._attempts.add(refused)

    def _enter_suite(self, suite: OpenSuite) -> None:
        inherited = suite.inherited
        self._attempts.enter_suite(is_pytest=inherited.is_pytest, is_testthat=inherited.is_testthat)

    def _start_in_case(self, case: _OpenCase, name: str, attributes: Mapping[str, str]) -> None:
        if name == _CASE:
            raise ReportError("a <testcase> stands within a <testcase>", self.line)
        if name in _FAILURES or (name in _SKIPPED and _was_cancelled(case, attributes)):
            # WebdriverIO writes an empty `<failure>` before the `<error>` that has the message.
            is_known = case.failure_type is not None or case.failure_message is not None
            if not (is_known or case.may_fail or attributes.get("type") in _RISKY):
                case.failed = True
                case.failure_type = cut_type(attributes.get("type"))
                case.failure_message = cut_message(attributes.get("message"))
                if says_nothing(case.failure_message, case.failure_type):
                    self._message = MessageBuffer()
                self._text = case.body = TraceBuffer()
        elif name in _RETRIES:
            case.retried = True
        elif name in _SKIPPED:
            _skip(case, attributes)
        elif name == _ERROR_OUTPUT and case.error_output is None:
            self._text = case.error_output = TraceBuffer()
        elif name == _OUTPUT and case.failed and case.output is None:
            self._text = case.output = TraceBuffer()
        self._passed_over_from = self._depth

    def _end_body(self) -> None:
        if self._message is not None and self._case is not None:
            message = self._message.text()
            if message is not None and self._case.failure_message is None:
                self._case.failure_message = drop_php_name(message, self._case.attributes)
            elif message is not None:
                found = find_message(message, self._case.failure_type)
                self._case.failure_message = found or self._case.failure_message
        elif self._message is not None:
            self._suites[-1].note_text(self._message.text())
        self._message = self._text = None

    def _finish(self, case: _OpenCase) -> ReportCase | RefusedCase:
        attributes = case.attributes
        class_name, name = self._find_class_name(case), find_stated(attributes, "name")
        if name is not None and self._suites[-1].inherited.is_testcafe:
            name, is_unstable = _read_testcafe_name(name)
            case.retried = case.retried or is_unstable
        try:
            test_name = check_stored_name(".".join(part for part in (class_name, name) if part))
        except InvalidValueError as error:
            return _refuse(case, error)
        conclusion = Conclusion.PASSED
        if case.failed:
            conclusion = Conclusion.FAILED
        elif case.skipped or _says(attributes, _NOT_RUN):
            conclusion = Conclusion.SKIPPED
        elif _says(attributes, _FAILED):
            conclusion = Conclusion.FAILED
        suite = self._suites[-1].inherited
        inherited = suite.enclose(attributes)
        path = inherited.filepath
        return ReportCase(
            test_name=test_name,
            conclusion=conclusion,
            needed_retries=conclusion is Conclusion.PASSED and _needed_retries(case),
            duration=parse_duration(attributes.get("time")),
            timestamp=inherited.timestamp,
            suite_timestamp=suite.timestamp,
            filepath=path if path and len(path) <= FILEPATH_MAX_LENGTH else None,
            function_name=name,
            failure_type=case.failure_type,
            failure_message=case.failure_message,
            failure_trace=_find_trace(case) if conclusion is Conclusion.FAILED else None,
            line=case.line,
        )

    def _find_class_name(self, case: _OpenCase) -> str | None:
        """Return the class name of a case, or its suite if only that tells tests apart."""
        class_name, suite = find_class_name(case.attributes), self._suites[-1]
        if class_name == NODE_CLASS and suite.inherited.node_suites:
            return suite.inherited.node_suites
        if class_name in _NO_CLASS and (
            case.attributes.get("name") == _GO_PACKAGE or case.failure_type == _PHP_PROVIDER
        ):
            return suite.name
        return class_name

    def _remember_names(self, *names: str) -> None:
        self._names.update(names)
        if len(self._names) > MAX_DISTINCT_NAMES:
            raise ReportError(
                f"more than {MAX_DISTINCT_NAMES} different names of elements and attributes",
                self.line,
            )


def _refuse(case: _OpenCase, error: InvalidValueError) -> RefusedCase:
    """Refuse a case because of its name; its failure, which may explain that, is not lost."""
    reason = f"the name of a test {error}"
    if case.failed:
        message = (case.failure_message or "no message")[:SHOWN_MESSAGE_LENGTH]
        reason = f"{reason}; the test failed: {message}"
    return RefusedCase(case.line, reason)


def _skip(case: _OpenCase, attributes: Mapping[str, str]) -> None:
    """Note a `skipped` element. It may stand for a failure, or excuse one."""
    message = attributes.get("message")
    if case.attributes.get("status") == "notrun" and message in _NOT_STARTED:
        case.failed = True
        case.failure_message = message
    else:
        case.skipped = True
        case.may_fail = case.may_fail or _says(attributes, _EXPECTED_TO_FAIL)


def _was_cancelled(case: _OpenCase, attributes: Mapping[str, str]) -> bool:
    """Return whether EUnit wrote this `skipped` element, for a test that it could not finish."""
    name = case.attributes.get("name", "")
    return (
        "type" in attributes
        and "classname" not in case.attributes
        and _EUNIT_NAME.match(name) is not None
    )


def _needed_retries(case: _OpenCase) -> bool:
    """Return whether an attempt failed before the one of a case that passed."""
    if case.retried or case.error_output is None or case.attributes.get("status") != "passed":
        return case.retried
    return _GINKGO_RETRY.search(case.error_output.text() or "") is not None


def _read_testcafe_name(name: str) -> tuple[str | None, bool]:
    """Return the name of the test alone, and whether it was unstable."""
    before, screenshots, _ = name.rpartition(_TESTCAFE_SCREENSHOTS)
    if screenshots and name.endswith(")"):
        name = before
    return name.removesuffix(_TESTCAFE_UNSTABLE) or None, name.endswith(_TESTCAFE_UNSTABLE)


def _says(attributes: Mapping[str, str], words: Mapping[str, frozenset[str]]) -> bool:
    """Return whether one of the attributes has one of its words as value, regardless of case."""
    return any(
        attributes[name].lower() in known for name, known in words.items() if name in attributes
    )


def _find_trace(case: _OpenCase) -> bytes | None:
    for buffer in (case.body, case.error_output, case.output):
        text = None if buffer is None else buffer.text()
        if text is not None:
            return pack_trace(text)
    return None


def _shorten(name: str) -> str:
    return name if len(name) <= _SHOWN_NAME_LENGTH else name[:_SHOWN_NAME_LENGTH] + "\u2026"
