"""Makes executions as the rules see them, and judges a test by all of its executions at once."""

from __future__ import annotations

from collections.abc import Sequence

from indexing.health.observations import Judgement, Observation
from indexing.health.rules import build_rollups, judge_rollups
from indexing.models.executions import Conclusion
from indexing.models.tests import TestHealth, TestMetadata
from indexing.timestamps import to_microseconds
from tests.builders import after

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


def judge(
    observations: Sequence[Observation], *, flaky_detection: bool, before: TestHealth | None = None
) -> Judgement:
    """Return the judgement by these executions; `before` is as in `judge_rollups`."""
    return judge_rollups(
        build_rollups(observations), observations, flaky_detection=flaky_detection, before=before
    )


def seen(
    conclusion: Conclusion = PASSED,
    *,
    hours: float = 0,
    commit: str = "c",
    retried: bool = False,
    infrastructure: bool = False,
    duration: float | None = None,
    framework: str | None = None,
) -> Observation:
    return Observation(
        pipeline_name="ci",
        job_name="unit",
        commit=commit,
        conclusion=conclusion,
        at=to_microseconds(after(hours=hours)),
        needed_retries=retried,
        infrastructure_failure=infrastructure,
        pull=None,
        metadata=TestMetadata(framework=framework),
        duration=duration,
    )
