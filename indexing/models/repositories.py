"""A known repository, with the settings of its test insights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from indexing.errors import InvalidValueError
from indexing.names import RepositoryName, check_text

DEFAULT_BRANCH: Final = "main"

# The largest `quarantine_after`, in days; few stores keep executions for longer.
MAX_QUARANTINE_AFTER: Final = 365

# GitHub ignores a CODEOWNERS file that is not smaller than 3 MB:
# https://docs.github.com/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners
MAX_CODE_OWNERS_BYTES: Final = 3_000_000


@dataclass(frozen=True, slots=True)
class Repository:
    """A known repository; `name` has the spelling that was stored first.

    `ignore_broken_on_default_branch` and `quarantine_after` configure `auto_quarantine`. The latter
    is the number of days for which a test must have been flaky or broken: 0 to
    `MAX_QUARANTINE_AFTER`.
    """

    name: RepositoryName
    default_branch: str = DEFAULT_BRANCH
    flaky_detection: bool = True
    auto_quarantine: bool = False
    ignore_broken_on_default_branch: bool = False
    quarantine_after: int = 0

    def differs_beside_branch(self, other: Repository) -> bool:
        """Return whether a setting other than the default branch differs."""
        return replace(self, default_branch=other.default_branch) != other


@dataclass(frozen=True, slots=True)
class RepositoryChange:
    """New settings of a repository; `None` leaves a setting unchanged."""

    default_branch: str | None = None
    flaky_detection: bool | None = None
    auto_quarantine: bool | None = None
    ignore_broken_on_default_branch: bool | None = None
    quarantine_after: int | None = None


def check_code_owners(text: str) -> str:
    """Return the text of a CODEOWNERS file, or raise `InvalidValueError` if it cannot be stored."""
    check_text(text)
    if len(text.encode()) > MAX_CODE_OWNERS_BYTES:
        raise InvalidValueError(f"must have at most {MAX_CODE_OWNERS_BYTES:,} bytes of UTF-8")
    return text
