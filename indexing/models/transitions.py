"""Changes of the health of sequences, and the query for a page of them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName

# Of one test: those of its newest days.
MAX_OF_TEST: Final = 500
# The execution shown with these is one that failed, if the day has one.
SHOWS_A_FAILURE: Final = frozenset({HealthStatus.BROKEN, HealthStatus.FLAKY})


class TransitionKey(NamedTuple):
    """The sort key of transitions; `id` is that of the identity, unique at one moment."""

    at: datetime
    id: bytes


@dataclass(frozen=True, slots=True)
class Transition:
    """The health of a sequence at the end of a UTC day differs from that of the day it ran before.

    `key.at` is when the day's newest execution finished. `exception_type`, `commit` and
    `pull_number` are of that execution, or of the day's newest failure where the test became broken
    or flaky; all are None if retention has removed them.
    """

    key: TransitionKey
    test_id: uuid.UUID
    test_name: str
    pipeline_name: str
    job_name: str
    previous: HealthStatus
    health: HealthStatus
    exception_type: str | None = None
    commit: str | None = None
    pull_number: int | None = None


@dataclass(frozen=True, slots=True)
class TransitionQuery:
    """Transitions from `start` until before `end`, newest first, into any of these states.

    Without states, into all; of one test, if it is given.
    """

    repository: RepositoryName
    start: datetime
    end: datetime
    healths: tuple[HealthStatus, ...] = ()
    test_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class TestTransitions:
    """The newest `MAX_OF_TEST` transitions of a test.

    `first_activity_at` is when the newest execution of its first day finished, if it ever ran.
    """

    __test__ = False

    transitions: Sequence[Transition]
    first_activity_at: datetime | None


def stored_states(
    healths: Sequence[HealthStatus], *, flaky_detection: bool
) -> tuple[HealthStatus, ...]:
    """Return which states of a history are shown as one of these, or all if none is given."""
    wanted = frozenset(healths or HealthStatus)
    return tuple(status for status in HealthStatus if shown_as(status, flaky_detection) in wanted)


def shown_as(status: HealthStatus, flaky_detection: bool) -> HealthStatus:  # noqa: FBT001
    """Return what a state of a history is shown as: with flaky detection off, flaky is healthy."""
    if status is HealthStatus.FLAKY and not flaky_detection:
        return HealthStatus.HEALTHY
    return status
