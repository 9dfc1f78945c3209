"""Limits the (pipeline, job) pairs by which a test is judged. Pure.

The first ones with results count. Results of further pairs are stored, but belong to no sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import Final

from indexing.health.rollups import Job
from indexing.health.thresholds import JUDGED_JOBS

# The text of a log line, whose fields have the number of tests.
TESTS_ARE_FULL: Final = (
    "tests have reached the limit of pairs of pipeline and job, and are judged by no further ones;"
    " the names of jobs may contain the number or date of a build"
)


def find_left_out(
    judged: int,
    others: Collection[Job],
    first_result_of: Callable[[Job], int],
    before: Container[Job] = (),
) -> frozenset[Job]:
    """Return those of the other pairs of a test that it is not judged by.

    `judged` is the number of pairs that it is judged by anyway. Of the others, those in `before`
    come first, then those with the oldest results: `first_result_of` returns when the oldest result
    of a pair finished.
    """
    room = max(JUDGED_JOBS - judged, 0)
    if len(others) <= room:
        return frozenset()

    def rank(job: Job) -> tuple[bool, int, Job]:
        return job not in before, first_result_of(job), job

    return frozenset(sorted(others, key=rank)[room:])


def has_room(judged: int) -> bool:
    """Return whether a test that is judged by so many pairs can be judged by another one."""
    return judged < JUDGED_JOBS


def has_become_full(before: int, after: int) -> bool:
    """Return whether a test that is judged by so many pairs has just reached the limit."""
    return has_room(before) and not has_room(after)
