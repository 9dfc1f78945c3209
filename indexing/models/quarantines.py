"""Quarantined tests, and the query for a list of them."""

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
    """The sort key of quarantines, oldest first; unique within one repository."""

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
    """The filters for quarantines in force at `now`; `None` does not filter.

    `branch` is a literal name: it selects the quarantines that apply to that branch.
    """

    repository: RepositoryName
    now: datetime
    branch: str | None = None
    test_id: uuid.UUID | None = None
    source: QuarantineSource | None = None


@dataclass(frozen=True, slots=True)
class QuarantineRequest:
    """A request to quarantine a test."""

    test_name: str
    reason: str
    branch: str | None = None
    owner: str | None = None
    expires_at: datetime | None = None
    source: QuarantineSource = QuarantineSource.MANUAL
