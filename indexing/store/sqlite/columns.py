"""Converts values that have no SQLite type to and from columns."""

from __future__ import annotations

from typing import Final

import orjson

from indexing.models.events import Outcome
from indexing.models.executions import Conclusion, PullRequest

# An index over all executions contains the conclusion; small numbers keep that index small.
CONCLUSION_NUMBERS: Final = {
    Conclusion.PASSED: 0,
    Conclusion.FAILED: 1,
    Conclusion.SKIPPED: 2,
}
CONCLUSIONS: Final = {number: conclusion for conclusion, number in CONCLUSION_NUMBERS.items()}

OUTCOME_NUMBERS: Final = {
    Outcome.SUCCESS: 0,
    Outcome.FAILURE: 1,
    Outcome.PENDING: 2,
    Outcome.NEUTRAL: 3,
}
OUTCOMES: Final = {number: outcome for outcome, number in OUTCOME_NUMBERS.items()}

# The values in `runs` for a run without a pull request or URL. Both columns are part of a unique
# key, in which nulls would never be equal.
NO_PULL_NUMBER: Final = -1
NO_URL: Final = ""


def text_of_pull(pull: PullRequest | None) -> str:
    """Return a pull request as canonical JSON; empty if there is none."""
    if pull is None:
        return ""
    return orjson.dumps(pull, option=orjson.OPT_SORT_KEYS).decode()


def pull_of_text(text: str | None) -> PullRequest | None:
    """Parse the text from `text_of_pull`."""
    return PullRequest(**orjson.loads(text)) if text else None
