"""The values that the reader of JUnit reports returns, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.errors import InvalidValueError
from indexing.models.executions import Conclusion

# How many characters of the message of a failure the reason of a refusal repeats.
SHOWN_MESSAGE_LENGTH: Final = 200

# Suites nest by folder and class, so real ones stay below 20; a deeper document is an attack.
MAX_DEPTH: Final = 256

# A case has a failure, a log and a few properties, so this allows a few million cases; parsing all
# of them takes about a minute. Without a limit, a small compressed file could keep the parser busy
# for hours.
MAX_ELEMENTS: Final = 20_000_000

# The parser keeps every name for the life of the process. All dialects together use fewer than a
# hundred names; some writers invent an attribute or two.
MAX_DISTINCT_NAMES: Final = 2_000

# The parser buffers a comment, a CDATA section or an attribute until it ends, and may need twice
# its size in memory. A CDATA section often holds a whole log, so this is far above the parser's own
# limit of 10 MB.
TOKEN_MAX_BYTES: Final = 32 * 1024 * 1024


class ReportError(InvalidValueError):
    """A document is not a JUnit report, or cannot be read to its end; the message says why.

    `line` counts from 1 and is `None` if unknown.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ReportCase:
    """One `testcase`: one execution of one test.

    `duration` is in seconds. `suite_timestamp` is that of the nearest enclosing suite that has one;
    `timestamp` is that of the case, else the same. `failure_trace` is the text of the failure, else
    what the case wrote to its standard error, else to its standard output, packed by
    `indexing.failures.traces`. `line` is where the start tag ends; it is `None` in UTF-16, where
    bytes do not show line ends.
    """

    test_name: str
    conclusion: Conclusion
    needed_retries: bool = False
    duration: float | None = None
    timestamp: datetime | None = None
    suite_timestamp: datetime | None = None
    filepath: str | None = None
    function_name: str | None = None
    failure_type: str | None = None
    failure_message: str | None = None
    failure_trace: bytes | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """A `testcase` that cannot be stored; the rest of its report is not affected."""

    line: int | None
    reason: str
