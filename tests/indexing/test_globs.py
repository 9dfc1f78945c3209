"""The glob oracle, compared with a matcher that is too simple to be wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing import globs
from tests.growth import assert_linear
from tests.indexing.glob_characters import CHARACTERS


def plainly_matches(pattern: str, name: str) -> bool:
    """Dynamic programming: one row for each character of the pattern, a cell for each prefix."""
    row = [True] + [False] * len(name)
    for wanted in pattern:
        if wanted == "*":
            row = [any(row[: end + 1]) for end in range(len(name) + 1)]
        else:
            row = [False] + [row[end] and (wanted in ("?", name[end])) for end in range(len(name))]
    return row[-1]


@given(st.text(CHARACTERS, max_size=12), st.text(CHARACTERS, max_size=12))
def test_the_oracle_agrees_with_a_table_of_prefixes(pattern: str, name: str) -> None:
    assert globs.matches(pattern, name) == plainly_matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("*", ""), ("**", "x"), ("a*a", "aa"), ("?", "🧪"), ("*\n*", "a\nb"), ("[a]", "[a]")],
)
def test_a_pattern_matches_the_whole_name(pattern: str, name: str) -> None:
    assert globs.matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("a*a", "a"), ("?", ""), ("?", "e\u0301"), ("[a]", "a"), ("a", "A"), ("ab", "abc")],
)
def test_a_pattern_does_not_match_another_name(pattern: str, name: str) -> None:
    assert not globs.matches(pattern, name)


def test_many_wildcards_take_no_longer_than_the_product_of_the_lengths() -> None:
    assert not globs.matches("*a" * 16 + "*b", "a" * 8_000)


@given(st.text("ab?", min_size=1, max_size=12), st.text("ab", max_size=30), st.integers(0, 5))
def test_the_bit_parallel_search_agrees_with_a_regular_expression(
    piece: str, name: str, at: int
) -> None:
    found = re.compile(piece.replace("?", ".")).search(name, at)
    assert globs.find_by_bits(piece, name, at) == (-1 if found is None else found.start())


@pytest.mark.parametrize("piece", ["a?" * 1_000 + "b", "a" + "?" * 2_000, "?a" * 700 + "?" * 500])
def test_question_marks_behind_a_star_take_time_in_proportion_to_the_name(piece: str) -> None:
    def prepare(length: int) -> Callable[[], bool]:
        name = "ab" * (length // 2)
        return lambda: globs.matches(f"*{piece}*", name)

    assert_linear(prepare, 4_000)


def test_a_name_is_read_once_for_all_pieces_with_question_marks() -> None:
    globs._find_places.cache_clear()
    piece = "a?" + "a" * 100
    assert globs.matches("*" + f"{piece}*" * 15, "a" * 8_000)
    assert globs._find_places.cache_info().misses == 1


def test_a_piece_that_is_longer_than_the_name_is_not_compiled() -> None:
    globs._expression.cache_clear()
    assert not globs.matches(f"*?{'b' * 2_000}*", "main")
    assert globs._expression.cache_info().misses == 0


@given(st.text(CHARACTERS, max_size=12))
def test_every_match_begins_with_the_prefix_and_holds_the_runs(pattern: str) -> None:
    name = pattern.replace("*", "xyz").replace("?", "q")
    assert globs.matches(pattern, name)
    assert name.startswith(globs.literal_prefix(pattern))
    assert name.endswith(globs.literal_suffix(pattern))
    assert all(run in name for run in globs.literal_runs(pattern))


@pytest.mark.parametrize(
    ("pattern", "cost"), [("", 0), ("a", 0), ("??", 0), ("*", 1), ("??*", 1), ("a?*?b*?", 4)]
)
def test_wildcards_at_unknown_positions_cost(pattern: str, cost: int) -> None:
    assert globs.count_cost(pattern) == cost
