"""A known repository, with the settings of its test insights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from indexing.names import RepositoryName

DEFAULT_BRANCH: Final = "main"

# Every day is one look at the test's state, and few stores keep executions for longer.
MAX_QUARANTINE_AFTER: Final = 365


@dataclass(frozen=True, slots=True)
class Repository:
    """A known repository; `name` has the spelling that was stored first.

    `ignore_broken_on_default_branch` and `quarantine_after` configure `auto_quarantine`. The latter
    is for how many days a test must have been flaky or broken: 0 to `MAX_QUARANTINE_AFTER`.
    """

    name: RepositoryName
    default_branch: str = DEFAULT_BRANCH
    flaky_detection: bool = True
    auto_quarantine: bool = False
    ignore_broken_on_default_branch: bool = False
    quarantine_after: int = 0


@dataclass(frozen=True, slots=True)
class RepositoryChange:
    """New settings of a repository; `None` leaves a setting unchanged."""

    default_branch: str | None = None
    flaky_detection: bool | None = None
    auto_quarantine: bool | None = None
    ignore_broken_on_default_branch: bool | None = None
    quarantine_after: int | None = None
