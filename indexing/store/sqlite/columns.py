"""How values that SQLite has no type for stand in its columns."""

from __future__ import annotations

from typing import Final

import orjson

from indexing.models.executions import Conclusion, PullRequest

# A conclusion is part of an index over every execution: a small number keeps that narrow.
CONCLUSION_NUMBERS: Final = {
    Conclusion.PASSED: 0,
    Conclusion.FAILED: 1,
    Conclusion.SKIPPED: 2,
}
CONCLUSIONS: Final = {number: conclusion for conclusion, number in CONCLUSION_NUMBERS.items()}


def text_of_pull(pull: PullRequest | None) -> str:
    """A pull request as JSON text, the same for equal ones; empty for none."""
    if pull is None:
        return ""
    return orjson.dumps(pull, option=orjson.OPT_SORT_KEYS).decode()


def pull_of_text(text: str | None) -> PullRequest | None:
    """The pull request that `text_of_pull` wrote."""
    return PullRequest(**orjson.loads(text)) if text else None
