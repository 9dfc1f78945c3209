"""A repository as this service knows it, with the settings that its test insights follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from indexing.names import RepositoryName

DEFAULT_BRANCH: Final = "main"


@dataclass(frozen=True, slots=True)
class Repository:
    """A known repository; `name` is in the spelling that was stored first."""

    name: RepositoryName
    default_branch: str = DEFAULT_BRANCH
    flaky_detection: bool = True


@dataclass(frozen=True, slots=True)
class RepositoryChange:
    """New settings of a repository; `None` leaves one as it is."""

    default_branch: str | None = None
    flaky_detection: bool | None = None
