"""A known repository, with the settings of its test insights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from indexing.names import RepositoryName

DEFAULT_BRANCH: Final = "main"


@dataclass(frozen=True, slots=True)
class Repository:
    """A known repository; `name` has the spelling that was stored first.

    `ignore_broken_on_default_branch` is the configuration of `auto_quarantine`.
    """

    name: RepositoryName
    default_branch: str = DEFAULT_BRANCH
    flaky_detection: bool = True
    auto_quarantine: bool = False
    ignore_broken_on_default_branch: bool = False


@dataclass(frozen=True, slots=True)
class RepositoryChange:
    """New settings of a repository; `None` leaves a setting unchanged."""

    default_branch: str | None = None
    flaky_detection: bool | None = None
    auto_quarantine: bool | None = None
    ignore_broken_on_default_branch: bool | None = None
