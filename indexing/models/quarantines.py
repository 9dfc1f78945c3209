"""Quarantined tests, and the query for a list of them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from indexing.globs import matches
from indexing.names import RepositoryName

# In characters.
MAX_REASON_LENGTH: Final = 1_000
MAX_OWNER_LENGTH: Final = 255


class QuarantineSource(StrEnum):
    """The source of a quarantine: a person, or the rules."""

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


# The longest branch that a pattern covers, in characters: no list is of a longer one. A write
# matches each of its branches against up to `MAX_QUARANTINES_PER_TEST` patterns, and stored names
# of 8,000 bytes would take seconds.
MAX_COVERED_LENGTH: Final = 255


def covers_branch(pattern: str | None, branch: str) -> bool:
    """Return whether a quarantine covers a branch; `pattern` is its glob, `None` for all.

    Only itself covers a branch of more than `MAX_COVERED_LENGTH` characters.
    """
    if pattern is None or pattern == branch:
        return True
    return len(branch) <= MAX_COVERED_LENGTH and matches(pattern, branch)


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


class ActorKind(StrEnum):
    """The kind of an actor: an application key, a user of this machine, or the rules."""

    KEY = "key"
    USER = "user"
    RULES = "rules"


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a change; `id` is the id of an application key, None for other kinds."""

    kind: ActorKind
    name: str
    id: str | None = None


# The most quarantines in force in one repository; people cannot add more. So the list of all of
# them stays readable.
MAX_QUARANTINES: Final = 10_000
# The most of one test, each for another branch or pattern. A load looks for each of its branches
# under each of them.
MAX_QUARANTINES_PER_TEST: Final = 100

RULES: Final = Actor(ActorKind.RULES, "automatic quarantine")
UNKNOWN: Final = Actor(ActorKind.USER, "unknown")


@dataclass(frozen=True, slots=True)
class QuarantineRequest:
    """A request to quarantine a test."""

    test_name: str
    reason: str
    branch: str | None = None
    owner: str | None = None
    expires_at: datetime | None = None
    source: QuarantineSource = QuarantineSource.MANUAL
    actor: Actor = UNKNOWN


class AddedQuarantine(NamedTuple):
    """A quarantine in force; `is_new` is false if it was in force before the call."""

    quarantine: Quarantine
    is_new: bool


class ChangeAction(StrEnum):
    """What happened to a quarantine.

    `TAKEN_BACK` is the withdrawal of an automatic one: late or removed results show that it had no
    reason, or its test was forgotten.
    """

    ADDED = "added"
    UPDATED = "updated"
    REMOVED = "removed"
    EXPIRED = "expired"
    TAKEN_BACK = "taken_back"


@dataclass(frozen=True, slots=True, order=True)
class QuarantineChangeKey:
    """The sort key of changes, newest first; unique within one repository."""

    at: datetime
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class QuarantineChange:
    """A change of a quarantine, with its values after the change; no `actor` if it expired."""

    key: QuarantineChangeKey
    action: ChangeAction
    quarantine_id: uuid.UUID
    test_name: str
    branch: str | None
    reason: str
    source: QuarantineSource
    actor: Actor | None
