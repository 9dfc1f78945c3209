"""Changes of the health of sequences, and the query for a page of them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName

# The most transitions of one test that are listed, from its newest days.
MAX_OF_TEST: Final = 500
# A transition to these states is shown with a failed execution, if the day has one.
SHOWS_A_FAILURE: Final = frozenset({HealthStatus.BROKEN, HealthStatus.FLAKY})


class TransitionKey(NamedTuple):
    """The sort key of transitions; `id` is that of the identity, unique at one moment."""

    at: datetime
    id: bytes


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of the health of a sequence, between the ends of two UTC days on which it ran.

    `key.at` is when the newest execution of the second day finished. `exception_type`, `commit` and
    `pull_number` are of that execution, or of the day's newest failure if the test became broken or
    flaky; all are None if retention has removed it.
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
    """The filters of transitions; order: newest first.

    `start` is included in the range, `end` is not. `healths` are the states after the transition;
    an empty tuple or `None` does not filter.
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
    """Return the states of a history that are shown as one of `healths`; all if it is empty."""
    wanted = frozenset(healths or HealthStatus)
    return tuple(status for status in HealthStatus if shown_as(status, flaky_detection) in wanted)


def shown_as(status: HealthStatus, flaky_detection: bool) -> HealthStatus:  # noqa: FBT001
    """Return the state to show: with flaky detection off, flaky is shown as healthy."""
    if status is HealthStatus.FLAKY and not flaky_detection:
        return HealthStatus.HEALTHY
    return status
