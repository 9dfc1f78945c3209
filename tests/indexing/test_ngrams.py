"""The n-grams of names, and those that a glob needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing import globs
from indexing.ngrams import needed_trigrams, trigrams_of


@pytest.mark.parametrize(
    ("text", "trigrams"),
    [
        ("abcd", ["abc", "bcd"]),
        ("aaaa", ["aaa"]),
        ("日本🧪é", ["日本🧪", "本🧪é"]),
        # So that a row has at least one.
        ("ab", ["ab"]),
    ],
)
def test_each_trigram_of_a_text_is_listed_once(text: str, trigrams: list[str]) -> None:
    assert trigrams_of(text) == trigrams


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("*rare*", ["rar", "are"]),
        ("*abcdef*", ["abc", "def"]),
        ("*abc*defgh*", ["def", "fgh", "abc"]),
        ("*ab*c?d*", []),
        ("*", []),
    ],
)
def test_trigrams_cover_the_literal_runs_longest_first(pattern: str, needed: list[str]) -> None:
    assert needed_trigrams(pattern) == needed


def test_a_long_pattern_needs_few() -> None:
    assert len(needed_trigrams("".join(map(chr, range(97, 4_000))))) == 8


@given(st.text("ab*?é", max_size=12), st.text("abé", max_size=4))
def test_every_match_has_the_trigrams_that_its_glob_needs(pattern: str, filling: str) -> None:
    name = pattern.replace("*", filling).replace("?", "b")
    assert globs.matches(pattern, name)
    assert set(needed_trigrams(pattern)) <= set(trigrams_of(name))
