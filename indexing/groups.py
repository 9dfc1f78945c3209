"""Adds up tests in groups, and sorts the groups. Pure."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from indexing.models.groups import WORST_FIRST, TestGroup
from indexing.models.tests import HEALTH_NUMBERS

# How bad each number of `HEALTH_NUMBERS` is: 3 is the worst.
BADNESS: Final = {
    HEALTH_NUMBERS[status]: len(WORST_FIRST) - 1 - place for place, status in enumerate(WORST_FIRST)
}

# The number of tests by badness from 0 up, then the executions and failed executions.
Counts = list[int]

# The path at the start of a test name, such as that of a Go package or a JavaScript file.
_PATH_OF_NAME: Final = re.compile(r"/?(?:[\w.@+-]++/)+")

# The directory of a file whose path names none.
TOP_DIRECTORY: Final = "."


class FindValues(Protocol):
    """Finds the groups of a test by its file, or by its name if it has none."""

    def __call__(self, filepath: str | None, test_name: str | None, /) -> Sequence[str | None]:
        """Return the value of each group; `test_name` may be None if it has no slash."""


def find_directory(filepath: str | None, test_name: str | None) -> Sequence[str | None]:
    """Return the directory of the file as it is written, `.` for the top directory.

    Without a file, it is the path at the start of the test name; None if there is no such path.
    """
    if filepath is None:
        found = _PATH_OF_NAME.match(test_name or "")
        return (None if found is None else found[0][:-1],)
    # Reports from Windows have backslashes.
    end = max(filepath.rfind("/"), filepath.rfind("\\"))
    # The directory of a file in the root is the separator itself.
    return (filepath[: end or 1] if end >= 0 else TOP_DIRECTORY,)


class GroupCounts:
    """Adds tests to their groups."""

    def __init__(self) -> None:
        self._counts: dict[str | None, Counts] = {}

    def add(self, value: str | None, counts: Sequence[int]) -> None:
        """Add the counts of several tests, in the order of `Counts`."""
        known = self._counts.get(value)
        if known is None:
            self._counts[value] = [*counts]
            return
        for place, count in enumerate(counts):
            known[place] += count

    def choose_worst(self, most: int) -> list[TestGroup]:
        """Return the worst groups in order, at most `most`."""
        return choose_worst((group_of(value, found) for value, found in self._counts.items()), most)


def group_of(value: str | None, counts: Sequence[int]) -> TestGroup:
    """Return the group with these counts, which are in the order of `Counts`."""
    unknown, healthy, flaky, broken, executions, failed = counts
    tests = unknown + healthy + flaky + broken
    return TestGroup(value, tests, healthy, flaky, broken, unknown, executions, failed)


def choose_worst(groups: Iterable[TestGroup], most: int) -> list[TestGroup]:
    """Return the worst groups in order, at most `most`.

    They are sorted by broken tests, flaky tests and failed executions, the most first; then by the
    value, None last.
    """
    return heapq.nsmallest(most, groups, key=_place_of)


def _place_of(group: TestGroup) -> tuple[int, int, int, bool, str]:
    value = group.value
    return (
        -group.broken,
        -group.flaky,
        -group.failed_executions_count,
        value is None,
        value or "",
    )
