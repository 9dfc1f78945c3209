"""Which (pipeline, job) pairs a test is judged by, if it has too many."""

from __future__ import annotations

import pytest

from indexing.health.judged_jobs import find_left_out, has_become_full
from indexing.health.thresholds import JUDGED_JOBS

PAIRS = [("ci", f"job-{number}") for number in range(JUDGED_JOBS + 2)]


def number_of(pair: tuple[str, str]) -> int:
    return PAIRS.index(pair)


@pytest.mark.parametrize("judged", [0, 1, JUDGED_JOBS - 1])
def test_the_pairs_with_the_oldest_results_count(judged: int) -> None:
    others = PAIRS[judged:]
    assert find_left_out(judged, others[:-2], number_of) == frozenset()
    assert find_left_out(judged, others[::-1], number_of) == frozenset(PAIRS[-2:])


def test_of_equally_old_results_the_order_of_names_counts() -> None:
    (left_out,) = find_left_out(JUDGED_JOBS - 1, [("ci", "b"), ("ci", "a")], lambda _: 0)
    assert left_out == ("ci", "b")


def test_pairs_that_counted_before_go_first() -> None:
    assert find_left_out(0, PAIRS, number_of, PAIRS[-2:]) == frozenset(PAIRS[-4:-2])


def test_a_test_that_has_too_many_pairs_gets_no_more() -> None:
    assert find_left_out(JUDGED_JOBS + 5, PAIRS[:1], number_of) == frozenset(PAIRS[:1])


def test_a_test_becomes_full_once() -> None:
    assert has_become_full(JUDGED_JOBS - 1, JUDGED_JOBS)
    assert not has_become_full(JUDGED_JOBS, JUDGED_JOBS)
    assert not has_become_full(0, JUDGED_JOBS - 1)
