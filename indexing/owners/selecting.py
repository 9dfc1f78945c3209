"""Selects the files of some owners, for a search. Pure, except that it looks at the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from indexing.errors import InvalidValueError
from indexing.models.file_selections import FileSelection
from indexing.owners.finding import Owners

# Stands for the tests without an owner. No owner has this name: each has an `@`.
NO_OWNER: Final = "none"

# Each page of a search sends all files to the store: Elasticsearch accepts 65,536 values, and the
# characters are those of paths of 100.
MAX_FILES: Final = 50_000
MAX_CHARACTERS: Final = 5_000_000


class FileSelector:
    """Collects the files that belong to any of the owners `names`."""

    def __init__(self, owners: Owners, names: Collection[str], check: Callable[[], object]) -> None:
        """`check` is called before each pattern is tried, so it can raise an error."""
        self._owners = owners
        self._names: frozenset[str | None] = frozenset(
            None if name == NO_OWNER else name for name in names
        )
        self._check = check
        self._paths: list[str] = []
        self._characters = 0

    @property
    def is_decided(self) -> bool:
        """Whether no file has to be looked at: none can belong to these owners, or all do."""
        if None in self._names:
            return not self._owners.names
        return self._owners.names.isdisjoint(self._names)

    def take(self, paths: Sequence[str], start: int, seconds: float) -> int:
        """Look at the paths from `start` on; return the index of the first that was not reached.

        Stops after about that many seconds, but takes at least one path.

        Raises:
            InvalidValueError: the owners have more files than a search accepts.
        """
        until = time.monotonic() + seconds
        for at in range(start, len(paths)):
            path = paths[at]
            if not self._names.isdisjoint(self._owners.find(path, self._check)):
                self._add(path)
            if time.monotonic() > until:
                return at + 1
        return len(paths)

    def select(self) -> FileSelection:
        """Return what was collected. A test without a file has no owner."""
        nobody = None in self._names
        everything = nobody and not self._owners.names
        return FileSelection(tuple(self._paths), without_file=nobody, everything=everything)

    def _add(self, path: str) -> None:
        self._paths.append(path)
        self._characters += len(path)
        if len(self._paths) > MAX_FILES:
            raise InvalidValueError(f"must have at most {MAX_FILES:,} files with tests together")
        if self._characters > MAX_CHARACTERS:
            raise InvalidValueError(
                f"must have files whose paths have at most {MAX_CHARACTERS:,} characters together"
            )
