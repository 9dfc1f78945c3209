"""Reports on the health of a test: that of each sequence, and the rule that decided it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from indexing.models.tests import HealthStatus


@dataclass(frozen=True, slots=True)
class ReportedVerdict:
    """The verdict on one commit in one (pipeline, job): passed, failed or flaky."""

    verdict: str
    commit: str
    first_execution_at: datetime
    last_execution_at: datetime


@dataclass(frozen=True, slots=True)
class JobHealth:
    """One sequence of a test; `rule` is a name in `docs/health.md`, `verdicts` are oldest first.

    `health_status` is unknown if the sequence is not live. Counts include all executions in the
    window of the test; `mean_duration` is in seconds.
    """

    pipeline_name: str
    job_name: str
    health_status: HealthStatus
    is_live: bool
    rule: str
    explanation: str
    executions_count: int
    failed_executions_count: int
    mean_duration: float | None
    last_execution_at: datetime
    verdicts: tuple[ReportedVerdict, ...]


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The health of a test and of its sequences.

    `jobs` are the worst of its `jobs_count` sequences, worst first, up to a limit.
    """

    health_status: HealthStatus
    jobs: tuple[JobHealth, ...]
    jobs_count: int
