"""The verdict before the window: which sequences need it. Pure.

Whether the first result of the window stood alone depends on the verdict before it. It is read only
where that matters: in a dense sequence whose first two results differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from indexing.health.dense import is_dense
from indexing.health.observations import Observation
from indexing.health.sequences import summarise
from indexing.health.verdicts import Outcome, Verdict, gather_sequences
from indexing.health.window import day_of, first_day
from indexing.models.executions import Conclusion

Job = tuple[str, str]


def find_open_jobs(observations: Sequence[Observation]) -> frozenset[Job]:
    """Return the (pipeline, job) pairs of a test whose older executions the rules need as well.

    `observations` has at least all executions of the test in the window.
    """
    # Results differ only where one failed: nearly all tests are left out at this point.
    failed = {
        (seen.pipeline_name, seen.job_name)
        for seen in observations
        if seen.conclusion is Conclusion.FAILED
    }
    if not failed:
        return frozenset()
    start = max(first_day(seen.finished_at) for seen in observations)
    sequences = gather_sequences(
        seen
        for seen in observations
        if (seen.pipeline_name, seen.job_name) in failed
        and day_of(seen.finished_at) >= start
        and not seen.infrastructure_failure
    )
    return frozenset(job for job, verdicts in sequences.items() if _needs_neighbour(verdicts))


def _needs_neighbour(verdicts: Sequence[Verdict]) -> bool:
    clean = (verdict.outcome for verdict in verdicts if verdict.outcome is not Outcome.FLAKY)
    first, second = next(clean, None), next(clean, None)
    return second is not None and first is not second and is_dense(summarise(verdicts))
