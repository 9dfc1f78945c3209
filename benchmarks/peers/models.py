"""The peer's responses as pydantic models, as in any FastAPI application."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel


class TestDetail(BaseModel):
    """The detail of one test."""

    __test__ = False

    repository: str
    test_name: str
    test_id: UUID
    health_status: str
    last_conclusion: str
    failure_ratio: float
    flakiness_ratio: float
    success_ratio: float
    flaky_detection_enabled: bool
    first_failure_at: datetime | None
    first_failure_commit: str | None
    first_failure_pull: dict[str, Any] | None
    last_failure_at: datetime | None
    last_success_at: datetime | None
    test_framework: str | None
    test_framework_version: str | None
    test_programming_language: str | None
    test_filepath: str | None
    test_function_name: str | None


class Quarantine(BaseModel):
    """One quarantined test."""

    id: UUID
    test_name: str
    reason: str
    branch: str | None
    created_at: datetime
    source: str
    is_recovered: bool


class Quarantines(BaseModel):
    """All quarantined tests."""

    quarantined_tests: list[Quarantine]


class TestIdentity(BaseModel):
    """One (test, pipeline, job)."""

    __test__ = False

    test_id: UUID
    test_name: str
    pipeline_name: str
    job_name: str


class Tests(BaseModel):
    """One page of the test search."""

    __test__ = False

    size: int
    per_page: int
    tests: list[TestIdentity]
