"""Sets of globs, compared with the oracle for each glob."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from indexing import globs
from indexing.glob_set import GlobSet
from tests.growth import assert_constant
from tests.indexing.glob_characters import CHARACTERS


def matches_any(patterns: GlobSet, name: str) -> bool:
    return patterns.matches_fixed(name) or any(
        globs.matches(pattern, name) for pattern in patterns.find_possible(name)
    )


PATTERNS = st.lists(st.text(CHARACTERS, max_size=6) | st.text("ab?*", max_size=6), max_size=12)


@given(PATTERNS, st.text(CHARACTERS, max_size=6) | st.text("ab", max_size=6))
@example(["??", "?", "*"], "")
@example(["a*a", "a?a"], "aa")
def test_a_set_agrees_with_the_oracle(patterns: list[str], name: str) -> None:
    expected = any(globs.matches(pattern, name) for pattern in patterns)
    assert matches_any(GlobSet(patterns), name) == expected


@given(PATTERNS, st.text("ab", max_size=4))
def test_a_set_matches_what_its_patterns_stand_for(patterns: list[str], filling: str) -> None:
    for pattern in patterns:
        assert matches_any(GlobSet(patterns), pattern.replace("*", filling).replace("?", "b"))


def test_patterns_that_are_literal_in_the_same_places_are_compared_at_once() -> None:
    name = "x" * 65 + "abc"

    def prepare(count: int) -> Callable[[], bool]:
        patterns = GlobSet(["?" * 65 + f"{n:03}" for n in range(count)])
        return lambda: patterns.matches_fixed(name)

    assert_constant(prepare, 10, 1_000)
