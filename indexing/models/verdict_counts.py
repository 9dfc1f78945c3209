"""How often a test passed, failed and was flaky since a day."""

from __future__ import annotations

import uuid
from typing import NamedTuple


class VerdictsSince(NamedTuple):
    """A question: the verdicts of this test from this UTC day on, counted from 1970."""

    test_id: uuid.UUID
    first_day: int


class VerdictCounts(NamedTuple):
    """How many verdicts of a test there are, over all of its pipelines and jobs."""

    passed: int = 0
    failed: int = 0
    flaky: int = 0
