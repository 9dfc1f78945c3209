"""Why a test is healthy, flaky or broken: the health of each sequence, and the rule behind it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from indexing.models.tests import HealthStatus


@dataclass(frozen=True, slots=True)
class ReportedVerdict:
    """One commit in one (pipeline, job): passed, failed or flaky."""

    verdict: str
    commit: str
    first_execution_at: datetime
    last_execution_at: datetime


@dataclass(frozen=True, slots=True)
class JobHealth:
    """One sequence of a test; `rule` is a name in `docs/health.md`, `verdicts` are oldest first.

    `health_status` is unknown if the sequence is not live. Counts take all executions of the window
    of the test; durations are in seconds.
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
    """The health of a test by that of its sequences.

    `jobs` are the worst of them, worst first: as many as an answer may show of `jobs_count`.
    """

    health_status: HealthStatus
    jobs: tuple[JobHealth, ...]
    jobs_count: int
