"""What the health rules are given and what they give back, as values; no rule is applied here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from indexing.models.executions import Conclusion, PullRequest
from indexing.models.tests import TestHealth, TestMetadata


@dataclass(frozen=True, slots=True)
class Observation:
    """One execution of one test on the default branch.

    `infrastructure_failure` marks an execution of a run that failed as a whole. `metadata` is
    what this one execution tells of the test.
    """

    pipeline_name: str
    job_name: str
    commit: str
    conclusion: Conclusion
    finished_at: datetime
    needed_retries: bool
    infrastructure_failure: bool
    pull: PullRequest | None
    metadata: TestMetadata


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that is derived of one test.

    `executions_counts` gives, for each (pipeline, job) that was observed at all, how many of its
    executions lie in the window, skips included; that may be 0.
    """

    health: TestHealth
    metadata: TestMetadata
    executions_counts: Mapping[tuple[str, str], int]
