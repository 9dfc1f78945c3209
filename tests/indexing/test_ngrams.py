"""The n-grams of texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.ngrams import TRIGRAM, cover, longest_first, trigrams_of


@pytest.mark.parametrize(
    ("text", "trigrams"),
    [
        ("abcd", ["abc", "bcd"]),
        ("aaaa", ["aaa"]),
        ("日本🧪é", ["日本🧪", "本🧪é"]),
        ("ab", ["ab"]),
    ],
)
def test_each_trigram_of_a_text_is_listed_once(text: str, trigrams: list[str]) -> None:
    assert trigrams_of(text) == trigrams


def test_literal_runs_come_longest_first() -> None:
    assert longest_first("*ab?c*defg*") == ["defg", "ab", "c"]


@given(st.text(min_size=TRIGRAM, max_size=20))
def test_a_cover_has_every_character_and_little_more(run: str) -> None:
    found = list(cover(run, TRIGRAM))
    assert set(found) <= set(trigrams_of(run))
    assert set("".join(found)) == set(run)
    assert len(found) == -(-len(run) // TRIGRAM)
