"""What reading a JUnit report gives, case by case, and the limits of it; nothing is read here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.errors import InvalidValueError
from indexing.models.executions import Conclusion

# A failure's body is often a whole log. What tells one failure from another stands at its start,
# and every execution keeps its own copy.
FAILURE_MESSAGE_MAX_LENGTH: Final = 4_000
FAILURE_TYPE_MAX_LENGTH: Final = 500

# The longest path that common systems open; a longer one is left out, since a cut path names
# another file.
FILEPATH_MAX_LENGTH: Final = 4_096

# Suites nest by folder and class, so real ones stay below 20; a deeper document is an attack.
MAX_DEPTH: Final = 256

# A case has a failure, a log and a few properties, so this is a few million cases; all of them
# take the parser about a minute. What packs well could otherwise keep it busy for hours.
MAX_ELEMENTS: Final = 20_000_000

# The parser keeps a name for as long as the process lives. All dialects together use fewer than
# a hundred; some writers invent an attribute or two of their own.
MAX_DISTINCT_NAMES: Final = 2_000

# The parser holds a comment, a CDATA section or an attribute until it ends. Whole logs stand in
# one CDATA section, so this is far above the parser's own 10 MB; it may need twice as much memory.
TOKEN_MAX_BYTES: Final = 32 * 1024 * 1024


class ReportError(InvalidValueError):
    """A document is not a JUnit report that can be read as a whole; the text says where and why.

    `line` counts from 1 and is `None` where it is not known.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ReportCase:
    """One `testcase`: one execution of one test.

    `duration` is in seconds. `timestamp` is the case's own or that of the nearest suite around
    it that has one. `line` is where its start tag ends, `None` in UTF-16, where lines cannot be
    told by bytes.
    """

    test_name: str
    conclusion: Conclusion
    needed_retries: bool = False
    duration: float | None = None
    timestamp: datetime | None = None
    filepath: str | None = None
    function_name: str | None = None
    failure_type: str | None = None
    failure_message: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """A `testcase` that cannot be stored; the rest of its report can."""

    line: int | None
    reason: str
