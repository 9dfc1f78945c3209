"""The suites of a JUnit document: what their cases inherit, and failures of their own. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from indexing.junit.attempts import PYTEST_SUITES
from indexing.junit.cases import SHOWN_MESSAGE_LENGTH, RefusedCase
from indexing.junit.values import find_stated, parse_report_timestamp
from indexing.names import STORED_NAME_MAX_BYTES

# TestCafe's reporter begins the name of its suite with this.
# https://github.com/DevExpress/testcafe-reporter-xunit
_TESTCAFE: Final = "TestCafe Tests: "

# The suites of node:test's reporter have these; its cases have the class name `test`, all of them.
# https://github.com/nodejs/node, lib/internal/test_runner/reporter/junit.js
_NODE_SUITE: Final = frozenset({"disabled", "errors", "hostname"})
NODE_CLASS: Final = "test"

# The attributes of a suite of R's testthat, in its order, which no other writer has.
# https://github.com/r-lib/testthat, R/reporter-junit.R
_TESTTHAT_SUITE: Final = (
    "name",
    "timestamp",
    "hostname",
    "tests",
    "skipped",
    "failures",
    "errors",
    "time",
)

# How much of a name is kept for the names of all cases in the suite. With more, none is accepted.
_KEPT_LENGTH: Final = STORED_NAME_MAX_BYTES + 1

# What some writers add to the path of a file: ExUnit's formatter can add the line, as in
# `test/hinge_test.exs:12`, and Pest adds the test, as in `tests/HingeTest.php::it opens`.
_PLACE_IN_FILE: Final = re.compile(r"(?::[0-9]+|(?<=\.php)::.+)\Z", re.DOTALL)

# busted names the file and the line of a test as its class, as in `spec/hinge_spec.lua:12`.
_BUSTED_CLASS: Final = re.compile(r"(.+\.(?:lua|moon)):[0-9]+", re.DOTALL)

# TAP::Formatter::JUnit writes this into the suite of a script that ended with another status than
# 0. Test::More ends with the number of failed tests, a script that died with another one.
_TAP_STATUS: Final = re.compile(r"Dubious, test returned ([0-9]{1,3}) .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Inherited:
    """The values that suites and cases inherit from the enclosing suite."""

    timestamp: datetime | None = None
    filepath: str | None = None
    is_testcafe: bool = False
    is_pytest: bool = False
    is_testthat: bool = False
    # The names of the suites of node:test, from the outermost to the innermost.
    node_suites: str | None = None

    def enclose(self, attributes: Mapping[str, str]) -> Inherited:
        """Return the values that an element with these attributes passes on.

        Its own values take precedence over inherited ones.
        """
        if "timestamp" not in attributes and "file" not in attributes:
            return self
        return replace(
            self,
            timestamp=parse_report_timestamp(attributes.get("timestamp")) or self.timestamp,
            filepath=_read_filepath(attributes) or self.filepath,
        )

    def enclose_suite(self, attributes: Mapping[str, str]) -> Inherited:
        """Return the values that a suite with these attributes passes on."""
        name = attributes.get("name", "")
        node_suites = None
        if attributes.keys() >= _NODE_SUITE:
            names = " > ".join(each for each in (self.node_suites, name.strip()) if each)
            node_suites = names[:_KEPT_LENGTH]
        return replace(
            self.enclose(attributes),
            is_testcafe=name.startswith(_TESTCAFE),
            is_pytest=self.is_pytest or name in PYTEST_SUITES,
            is_testthat=tuple(attributes) == _TESTTHAT_SUITE,
            node_suites=node_suites,
        )


@dataclass(slots=True)
class OpenSuite:
    """A suite that has not ended yet.

    `failure` is its own: the message of a `failure` or `error` that stands in the suite, outside of
    its cases, on line `line`. `failed_cases` counts the failed ones of its cases.
    """

    inherited: Inherited = field(default_factory=Inherited)
    name: str | None = None
    failed_cases: int = 0
    failure: str | None = None
    line: int | None = None

    def begin(self, attributes: Mapping[str, str]) -> OpenSuite:
        """Return a suite within this one."""
        name = find_stated(attributes, "name")
        return OpenSuite(self.inherited.enclose_suite(attributes), name and name[:_KEPT_LENGTH])

    def note_failure(self, attributes: Mapping[str, str], line: int | None) -> None:
        """Note a failure of the suite itself; the first one counts."""
        if self.failure is None:
            message = find_stated(attributes, "message") or find_stated(attributes, "type")
            self.failure = (message or "")[:SHOWN_MESSAGE_LENGTH]
            self.line = line

    def note_text(self, text: str | None) -> None:
        """Note the text of its own failure, for one without a message or a type."""
        if not self.failure:
            self.failure = (text or "")[:SHOWN_MESSAGE_LENGTH]

    def end(self) -> RefusedCase | None:
        """Return the refusal of the suite's own failure, unless its failed cases explain that.

        Ant writes one for a class that cannot be loaded, busted for a test whose set-up failed, and
        TAP::Formatter::JUnit for a script that died. There is no test that it could be stored for.
        """
        if self.failure is None:
            return None
        status = _TAP_STATUS.fullmatch(self.failure)
        if status is not None and 0 < int(status[1]) <= self.failed_cases:
            return None
        message = self.failure or "no message"
        return RefusedCase(self.line, f"a suite failed outside of its test cases: {message}")


def find_class_name(attributes: Mapping[str, str]) -> str | None:
    """Return the class name of a case; without a line, which every edit above the test changes."""
    class_name = find_stated(attributes, "classname")
    place = class_name and _BUSTED_CLASS.fullmatch(class_name)
    return place[1] if place else class_name


def _read_filepath(attributes: Mapping[str, str]) -> str | None:
    path = find_stated(attributes, "file")
    if not path:
        return None
    # RSpec's formatter writes `./spec/hinge_spec.rb`. GitHub attaches no annotation to such a path,
    # and no filter by folder finds it.
    return _PLACE_IN_FILE.sub("", path).removeprefix("./") or None
