"""The outcome of a verdict."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """The combined result of all executions of one test on one commit in one job."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
