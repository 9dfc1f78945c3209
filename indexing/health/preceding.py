"""The verdict before the window: which sequences need it, and what it is. Pure.

Whether the first result of the window stood alone depends on the verdict before it. It is read only
where that matters: in a dense sequence whose first two results differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from indexing.health.dense import is_dense
from indexing.health.observations import Observation
from indexing.health.sequences import summarise
from indexing.health.verdicts import Outcome, Verdict, gather_sequences
from indexing.health.window import day_of, first_day
from indexing.models.executions import Conclusion

Job = tuple[str, str]
Sequences = Mapping[Job, Sequence[Verdict]]


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


def find_before(older: Iterable[Observation], sequences: Sequences) -> Mapping[Job, Outcome]:
    """Return the newest outcome before the window that is not flaky, where it matters.

    `older` has the executions before the window, `sequences` the verdicts in it. A commit that has
    a verdict in the window has none before it.
    """
    needed = {job for job, verdicts in sequences.items() if _needs_neighbour(verdicts)}
    if not needed:
        return {}
    found = {}
    before = gather_sequences(seen for seen in older if not seen.infrastructure_failure)
    for job in needed & before.keys():
        commits = {verdict.commit for verdict in sequences[job]}
        clean = [
            verdict.outcome
            for verdict in before[job]
            if verdict.outcome is not Outcome.FLAKY and verdict.commit not in commits
        ]
        if clean:
            found[job] = clean[-1]
    return found


def _needs_neighbour(verdicts: Sequence[Verdict]) -> bool:
    clean = (verdict.outcome for verdict in verdicts if verdict.outcome is not Outcome.FLAKY)
    first, second = next(clean, None), next(clean, None)
    return second is not None and first is not second and is_dense(summarise(verdicts))
