"""Judges a test by all of its executions at once, without stored roll-ups."""

from __future__ import annotations

from collections.abc import Sequence

from indexing.health.observations import Judgement, Observation
from indexing.health.rules import build_rollups, judge_rollups
from indexing.models.tests import TestHealth


def judge(
    observations: Sequence[Observation], *, flaky_detection: bool, before: TestHealth | None = None
) -> Judgement:
    """Return the judgement by these executions; `before` is as in `judge_rollups`."""
    return judge_rollups(
        build_rollups(observations), observations, flaky_detection=flaky_detection, before=before
    )
