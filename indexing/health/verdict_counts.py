"""Counts the verdicts of a test since a day, from its roll-ups. Pure."""

from __future__ import annotations

from collections.abc import Collection

from indexing.health.rollups import Rollup, find_newest
from indexing.health.window import start_of_window
from indexing.models.verdict_counts import VerdictCounts


def count_verdicts(rollups: Collection[Rollup], first_day: int) -> VerdictCounts:
    """Count the verdicts of a test from this UTC day on, in the window of the health rules.

    A verdict that began before that day counts by its executions from that day on.
    """
    if not rollups:
        return VerdictCounts()
    start = max(first_day, start_of_window(find_newest(rollups).newest_at))
    passed = failed = flaky = 0
    for rollup in rollups:
        sequence = rollup.sequence_since(start)
        if sequence is not None:
            for day in sequence.days:
                passed += day.passed
                failed += day.failed
                flaky += day.flaky
    return VerdictCounts(passed, failed, flaky)
