"""The message of a failure: what the report states, or the text if that says more. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from indexing.failures.texts import MESSAGE_MAX_LENGTH

# Some tools state the same message for every failure; only the text tells failures apart.
_SAYS_NOTHING: Final = frozenset(
    {
        # gotestsum and go-junit-report.
        "Failed",
        # pytest: a module that cannot be imported. nose2: every failure and error.
        "collection failure",
        "test failure",
        # Boost.Test: assertions and exceptions.
        "failure",
        "unexpected exception",
        # behave: a step without a definition.
        "None",
        # terraform test: a run that did not get to its assertions.
        "Encountered an error",
        # helm-unittest: a template that cannot be rendered. For assertions it says "Failed".
        "Error",
    }
)
# Erlang's Common Test: https://github.com/erlang/otp, lib/common_test/src/cth_surefire.erl
_COMMON_TEST: Final = re.compile(r"Test \S+ in \S+ failed!")

# Playwright before 1.59 states this type, and as message only which test it is, such as
# `hinge.spec.ts:4:7 opens`. Its text has a heading, the error, lines of the source, a stack trace,
# attachments, and the same again for each retry.
_PLAYWRIGHT_TYPE: Final = "FAILURE"
_PLAYWRIGHT: Final = re.compile(r"[^\n]+?:[0-9]+:[0-9]+ ")
_PLAYWRIGHT_REST: Final = re.compile(
    r" *+(?:> *+)?+[0-9]++ \|(?: |$)| {5,}+at \S| *+Retry #[0-9]| *+attachment #[0-9]"
)

# The text of gotestsum begins with the progress of the test.
_GO_PROGRESS: Final = re.compile(r"\A(?:=== [A-Z]+ .*\n\s*)+")


def says_nothing(message: str | None, failure_type: str | None) -> bool:
    """Return whether a stated message is missing, or says no more than that a test failed."""
    return (
        message is None
        or message in _SAYS_NOTHING
        or _COMMON_TEST.fullmatch(message) is not None
        or (failure_type == _PLAYWRIGHT_TYPE and _PLAYWRIGHT.match(message) is not None)
    )


def find_message(text: str, failure_type: str | None) -> str | None:
    """Return the message in the text of a failure whose stated one says nothing; `None` if none."""
    if failure_type != _PLAYWRIGHT_TYPE:
        return _GO_PROGRESS.sub("", text)
    lines = text.splitlines()[1:]
    error = takewhile(lambda line: _PLAYWRIGHT_REST.match(line) is None, lines)
    return "\n".join(line.removeprefix("    ") for line in error).strip() or None


def drop_php_name(message: str, attributes: Mapping[str, str]) -> str:
    """Return the text of a failure without the name of its test, which PHPUnit and Pest begin with.

    `attributes` are those of the case. Only reports of PHP name the class in `class`, too.
    """
    name, class_name = attributes.get("name"), attributes.get("class")
    if not (name and class_name):
        return message
    rest = ""
    if message.startswith(f"{class_name}::{name}"):
        # PHPUnit up to 9 writes the values of a data set behind its name.
        rest = message.removeprefix(f"{class_name}::{name}").partition("\n")[2]
    elif attributes.get("file", "").endswith(f"::{name}"):
        # Pest writes nothing between the name and the failure, not even a blank.
        rest = message.removeprefix(name)
    return rest.lstrip() or message


@dataclass(slots=True)
class MessageBuffer:
    """Collects the start of a failure's text, to be its message."""

    pieces: list[str] = field(default_factory=list)
    room: int = MESSAGE_MAX_LENGTH

    def add(self, text: str) -> None:
        if self.room:
            piece = (text if self.pieces else text.lstrip())[: self.room]
            if piece:
                self.pieces.append(piece)
                self.room -= len(piece)

    def text(self) -> str | None:
        return "".join(self.pieces).rstrip() or None
