"""Computes the state of a test at earlier moments, with one merge of its executions. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import attrgetter

from indexing.health.merging import RollupMerge
from indexing.health.observations import Judgement, Observation
from indexing.health.rollups import Job, Rollup
from indexing.health.rules import group_by_job
from indexing.quarantine.decision import JudgedState

_FINISHED: attrgetter[int] = attrgetter("at")


class PastStates:
    """The states of one test on the default branch, each by the executions until a moment.

    As long as the moments ascend, each execution is merged once; an earlier moment starts again.
    Only the executions of `jobs`, by which the test is judged, belong to them. `judge` gets the
    roll-ups, and no executions: the decisions do not depend on these.
    """

    _merged: int

    def __init__(
        self,
        observations: Iterable[Observation],
        jobs: Container[Job],
        judge: Callable[[Mapping[Job, Rollup], Sequence[Observation]], Judgement],
    ) -> None:
        self._observations = sorted(
            [seen for seen in observations if seen.job in jobs], key=_FINISHED
        )
        self._judge = judge
        self._start_again()

    def until(self, moment: int) -> JudgedState:
        """Return the state by the executions that had finished by `moment`, in microseconds."""
        end = bisect_right(self._observations, moment, key=_FINISHED)
        if end < self._merged:
            self._start_again()
        if end > self._merged:
            self._merge(self._observations[self._merged : end])
            self._merged = end
            self._state = JudgedState.of(self._judge(self._rollups, ()), self._rollups.values())
        return self._state

    def _start_again(self) -> None:
        self._merged = 0
        self._merges: dict[Job, RollupMerge] = {}
        self._rollups: dict[Job, Rollup] = {}
        self._state = JudgedState.of(self._judge({}, ()), ())

    def _merge(self, observations: Iterable[Observation]) -> None:
        for job, new in group_by_job(observations).items():
            merge = self._merges.get(job)
            if merge is None:
                merge = self._merges[job] = RollupMerge(None, lambda _: False)
            merge.add(new)
            rollup = merge.roll_up()
            if rollup is not None:
                self._rollups[job] = rollup
