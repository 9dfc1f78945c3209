"""The failures of one test, grouped by type and message, and the queries for them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from indexing.failures.traces import unpack_trace
from indexing.models.listed_executions import ListedExecution
from indexing.names import RepositoryName


class FailureKey(NamedTuple):
    """The sort key of failures; unique within one test."""

    last_failure_at: datetime
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Failure:
    """Executions of one test with the same failure; type and message are those of the newest."""

    key: FailureKey
    exception_type: str | None
    exception_message: str | None
    failure_count: int
    first_failure_at: datetime


@dataclass(frozen=True, slots=True)
class FailureEvent:
    """One failed execution; `trace` is packed by `indexing.failures.traces`."""

    execution: ListedExecution
    exception_message: str | None
    trace: bytes | None

    @property
    def exception_stacktrace(self) -> str | None:
        """The trace as text."""
        return None if self.trace is None else unpack_trace(self.trace)


@dataclass(frozen=True, slots=True)
class FailureDetail:
    """A failure with its newest events, newest first."""

    failure: Failure
    latest_events: tuple[FailureEvent, ...]


@dataclass(frozen=True, slots=True)
class FailureQuery:
    """The failures of one test, on these branches or on all. Order: latest first."""

    repository: RepositoryName
    test_id: uuid.UUID
    branches: tuple[str, ...] = ()
