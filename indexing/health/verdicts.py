"""Verdicts: the combined result of all executions of a test on one commit in one job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class Outcome(Enum):
    """The combined result of all executions of one test on one commit in one job."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one commit in one job, and when its first and last execution finished."""

    first_at: datetime
    last_at: datetime
    commit: str
    outcome: Outcome
