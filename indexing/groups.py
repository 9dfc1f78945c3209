"""Adds up tests in groups, and puts the groups in order. Pure."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from indexing.models.groups import WORST_FIRST, TestGroup
from indexing.models.tests import HEALTH_NUMBERS

# How bad each number of `HEALTH_NUMBERS` is: 3 is the worst.
BADNESS: Final = {
    HEALTH_NUMBERS[status]: len(WORST_FIRST) - 1 - place for place, status in enumerate(WORST_FIRST)
}

# By badness, then executions and failed executions.
Counts: TypeAlias = list[int]
_EXECUTIONS: Final = len(BADNESS)
_FAILED: Final = _EXECUTIONS + 1

# A name that begins with a path, such as that of a Go package or a file of JavaScript.
_PATH_OF_NAME: Final = re.compile(r"/?(?:[\w.@+-]++/)+")


class FindValues(Protocol):
    """Finds the groups of a test by its file, or by its name if it has none."""

    def __call__(self, filepath: str | None, test_name: str | None, /) -> Sequence[str | None]:
        """Return the value of each group; `test_name` may be None if it has no slash."""


def find_directory(filepath: str | None, test_name: str | None) -> Sequence[str | None]:
    """Return the directory of the file as it is written, `.` for the top one.

    Without a file it is the path that the name begins with, None if it does not begin so.
    """
    if filepath is None:
        found = _PATH_OF_NAME.match(test_name or "")
        return (None if found is None else found[0][:-1],)
    # Reports of Windows have backslashes.
    end = max(filepath.rfind("/"), filepath.rfind("\\"))
    # At the root, the separator is all there is of the directory.
    return (filepath[: end or 1] if end >= 0 else ".",)


class GroupCounts:
    """Adds tests to their groups."""

    def __init__(self) -> None:
        self._counts: dict[str | None, Counts] = {}

    def add(self, value: str | None, counts: Sequence[int]) -> None:
        """Add tests: how many of each badness from 0 up, then executions and failed ones."""
        known = self._counts.get(value)
        if known is None:
            self._counts[value] = [*counts]
            return
        for place, count in enumerate(counts):
            known[place] += count

    def add_test(
        self, value: str | None, badness: int, executions: int, failed_executions: int
    ) -> None:
        """Add one test by the worst of its rows in the group, and their executions."""
        counts = self._counts.get(value)
        if counts is None:
            counts = self._counts[value] = [0] * (_FAILED + 1)
        counts[badness] += 1
        counts[_EXECUTIONS] += executions
        counts[_FAILED] += failed_executions

    def choose_worst(self, most: int) -> list[TestGroup]:
        """Return the groups in order, at most that many."""
        return choose_worst((group_of(value, found) for value, found in self._counts.items()), most)


def group_of(value: str | None, counts: Sequence[int]) -> TestGroup:
    """Return the group of counts as `GroupCounts.add` takes them."""
    unknown, healthy, flaky, broken, executions, failed = counts
    tests = unknown + healthy + flaky + broken
    return TestGroup(value, tests, healthy, flaky, broken, unknown, executions, failed)


def choose_worst(groups: Iterable[TestGroup], most: int) -> list[TestGroup]:
    """Return the groups with the most broken tests first, at most that many.

    Then come flaky tests, failed executions, and the value by code point, None last.
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
