"""Quarantined tests, and the question that a list of them answers."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from indexing.names import RepositoryName


class QuarantineSource(StrEnum):
    """Who put a test in quarantine: a person, or the rules."""

    MANUAL = "manual"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, order=True)
class QuarantineKey:
    """What orders the quarantines of one repository, oldest first: unique there."""

    created_at: datetime
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Quarantine:
    """One quarantine of one test, on the branches that the glob `branch` matches, or on all."""

    key: QuarantineKey
    test_name: str
    reason: str
    branch: str | None
    source: QuarantineSource
    is_recovered: bool = False
    owner: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QuarantineQuery:
    """Which quarantines of a repository are in force at `now`; `None` does not filter.

    `branch` is a literal name: what applies to that branch.
    """

    repository: RepositoryName
    now: datetime
    branch: str | None = None
    test_id: uuid.UUID | None = None
    source: QuarantineSource | None = None


@dataclass(frozen=True, slots=True)
class QuarantineRequest:
    """What somebody asks to quarantine."""

    test_name: str
    reason: str
    branch: str | None = None
    owner: str | None = None
    expires_at: datetime | None = None
    source: QuarantineSource = QuarantineSource.MANUAL
