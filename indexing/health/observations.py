"""The inputs and results of the health rules, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from indexing.health.explanation import explain
from indexing.health.rollups import Job, Rollup
from indexing.models.executions import Conclusion, PullRequest
from indexing.models.tests import TestHealth, TestMetadata, TestMetrics


class Observation(NamedTuple):
    """One execution of one test on the default branch.

    `at` is when it finished, in microseconds since 1970. `infrastructure_failure` marks an
    execution of a run that failed as a whole. `metadata` is the test's metadata in this one
    execution; `duration` is in seconds, None if unknown.
    """

    pipeline_name: str
    job_name: str
    commit: str
    conclusion: Conclusion
    at: int
    needed_retries: bool
    infrastructure_failure: bool
    pull: PullRequest | None
    metadata: TestMetadata
    duration: float | None = None

    @property
    def job(self) -> Job:
        return (self.pipeline_name, self.job_name)


@dataclass(frozen=True, slots=True)
class Judgement:
    """All derived data of one test.

    `rows` has the metrics of each observed (pipeline, job), which may have no execution in the
    window. `worst` is the roll-up of the sequence that makes the test flaky or broken, with the
    first day of the window; None if it is neither.
    """

    health: TestHealth
    metadata: TestMetadata
    rows: Mapping[tuple[str, str], TestMetrics]
    worst: tuple[Rollup, int] | None = None
    flaky_detection: bool = True

    @property
    def explanation(self) -> str:
        """A sentence on why the test is flaky or broken; empty if it is neither."""
        # Most flaky tests are not quarantined, so the sequence is made here and not with each test.
        if self.worst is None:
            return ""
        rollup, start = self.worst
        sequence = rollup.sequence_since(start)
        if sequence is None:
            return ""
        return explain(sequence, flaky_detection=self.flaky_detection).sentence
