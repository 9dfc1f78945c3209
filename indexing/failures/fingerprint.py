"""Recognises equal failures: the same type, and the same message except for variable parts.

Numbers, hexadecimals, UUIDs, timestamps, durations and temporary paths vary between two occurrences
of one failure. All become the same placeholder, because one kind may look like another: a short
digest may happen to hold digits only.

Each alternative below has a fixed length or is possessive (never backtracks), and those that can
fail late begin at the start of a word only. So the time is linear in the message.
"""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import Final

from indexing.failures.texts import MESSAGE_MAX_LENGTH
from indexing.identifiers import derive_failure_id
from indexing.models.executions import Conclusion, Execution

PLACEHOLDER: Final = "#"

# When a job fails as a whole, most of its messages are equal.
_CACHE_SIZE: Final = 256

_REST_OF_PATH: Final = r"""[^\s'"`<>|:;,()\[\]{}]*+"""
_UNIX_PATH: Final = rf"(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/{_REST_OF_PATH}"
_WINDOWS_PATH: Final = rf"""
    [A-Za-z]:[\\/]{{1,2}}
    (?:Users[\\/]{{1,2}}[^\\/\s'"]{{1,64}}[\\/]{{1,2}}AppData[\\/]{{1,2}}Local[\\/]{{1,2}}
      |Windows[\\/]{{1,2}})?
    Te?mp[\\/]{_REST_OF_PATH}
"""
_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])"
_TIME: Final = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?![0-9]|:[0-9])(?:[.,][0-9]{1,9})?+"
_ZONE: Final = r"[ ]?(?:Z\b|UTC\b|GMT\b|[+-][0-9]{2}:?[0-9]{2}(?![0-9]))"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_ISO_TIMESTAMP: Final = rf"""
    [0-9]{{4}}[-/][0-9]{{2}}[-/][0-9]{{2}}(?![0-9])
      (?:[T ](?:{_TIME}|[0-9]{{2}}:[0-9]{{2}})(?:{_ZONE})?+)?+
  | {_TIME}(?:{_ZONE})?+
"""
_NAMED_TIMESTAMP: Final = rf"""
    (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}},?[ ]{{1,2}}(?:[0-9]{{1,2}}[ ])?
    {_MONTH}[ ]{{1,2}}[0-9]{{1,4}}(?:[ ]{_TIME})?+(?:{_ZONE})?+(?:[ ][0-9]{{4}}(?![0-9]))?+
"""
_DURATION: Final = r"""
    (?:[0-9]++(?:[.,][0-9]++)?+[ ]?
      (?:ns|us|\u00b5s|\u03bcs|ms|msecs?|milliseconds?|microseconds?|nanoseconds?
        |s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![A-Za-z_])[ ]?+)++
"""
_HEXADECIMAL: Final = r"""
    (?=[0-9]*+[a-fA-F])(?=[a-fA-F]*+[0-9])[0-9a-fA-F]{7,}+(?![0-9A-Za-z_])
"""
_POINTER: Final = "0[xX][0-9a-fA-F]++"
_NUMBER: Final = r"[-+]?[0-9]++(?:[.,_][0-9]++)*+(?:[eE][-+]?[0-9]++)?+%?"

# The first condition of each line rejects most positions.
_VARYING: Final = re.compile(
    rf"""
    {_UNIX_PATH}
  | (?<![0-9A-Za-z_])(?:{_UUID}|{_HEXADECIMAL}|{_NAMED_TIMESTAMP}|{_WINDOWS_PATH})
  | (?=[0-9])(?:{_POINTER}|(?<![0-9.:])(?:{_ISO_TIMESTAMP}|{_DURATION})|{_NUMBER})
  | (?<![\w.])[-+](?=[0-9])(?:{_POINTER}|{_NUMBER})
    """,
    re.VERBOSE,
)


def identify_failure(test_id: uuid.UUID, execution: Execution) -> uuid.UUID | None:
    """Return the id of the failure, the same for equal ones of the test; `None` if it passed."""
    if execution.conclusion is not Conclusion.FAILED:
        return None
    message = execution.failure_message
    normalised = "" if message is None else normalise_message(message)
    return derive_failure_id(test_id, execution.failure_type or "", normalised)


@lru_cache(_CACHE_SIZE)
def normalise_message(message: str) -> str:
    """Return the message with `PLACEHOLDER` for each variable part, and blanks joined into one."""
    normalised = _VARYING.sub(_replace, message[:MESSAGE_MAX_LENGTH])
    return " ".join(normalised.split())


def _replace(found: re.Match[str]) -> str:
    # A duration takes the blank behind it, which may belong to the words that follow.
    return PLACEHOLDER + " " if found[0].endswith(" ") else PLACEHOLDER
