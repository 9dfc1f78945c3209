"""A set of files, whose tests a search finds. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# With more files or more characters of their paths than this, a search takes too long for the event
# loop.
MANY_FILES: Final = 250
MANY_CHARACTERS: Final = 50_000


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The tests of these files; `without_file` adds the tests that have no file.

    With `everything`, all tests are selected, and the other fields say nothing.
    """

    paths: tuple[str, ...] = ()
    without_file: bool = False
    everything: bool = False

    @property
    def is_large(self) -> bool:
        """Whether a search of these files takes long."""
        return len(self.paths) > MANY_FILES or sum(map(len, self.paths)) > MANY_CHARACTERS
