"""The queries of test searches by a shortcut: when there is one, and what it looks up."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing import globs
from indexing.models.file_selections import FileSelection
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.indices.name_trigrams import (
    bigrams_in,
    can_look_up,
    trigrams_for,
    trigrams_in,
)
from indexing.store.elasticsearch.search.shortcuts import (
    Shortcut,
    find_shortcut,
    make_shortcut_query,
)
from tests.builders import WIDGETS

ROUTING = "r"


@pytest.mark.parametrize(
    ("pattern", "trigrams"),
    [
        ("*rare*", ["are", "rar"]),
        # The end of a name has trigrams of its own.
        ("*_017", ["17\0", "_01", "017"]),
        ("*17", ["17\0"]),
        # The longest run comes first, each from its end; what has a prefix anyway comes last.
        (
            "path/a*bcd*_login",
            ["in\0", "log", "_lo", "bcd", "ogi", "gin", "h/a", "pat"],
        ),
    ],
)
def test_the_ends_of_runs_are_looked_up_first(pattern: str, trigrams: list[str]) -> None:
    assert find_shortcut(TestQuery(WIDGETS, (pattern,))) is Shortcut.TRIGRAMS
    assert trigrams_in(pattern) == trigrams


@pytest.mark.parametrize(
    ("pattern", "bigrams", "trigrams"),
    [
        ("*qz*", ["qz"], []),
        # The end of a name is no second character.
        ("*qz*a", ["qz"], []),
        ("suite.*qz*", ["qz"], ["te.", "sui"]),
        ("*ab?cd*ef*", ["ab", "cd"], []),
        ("*qz*abc*", [], ["abc"]),
    ],
)
def test_without_a_trigram_two_characters_are_looked_up(
    pattern: str, bigrams: list[str], trigrams: list[str]
) -> None:
    assert find_shortcut(TestQuery(WIDGETS, (pattern,))) is Shortcut.TRIGRAMS
    assert bigrams_in(pattern) == bigrams
    assert trigrams_in(pattern) == trigrams


def test_no_more_than_twelve_trigrams_are_looked_up() -> None:
    run = "".join(chr(97 + number * 7 % 26) for number in range(60))
    assert len(trigrams_in(f"*{run}*")) == 12
    assert trigrams_in(f"*{run}*")[0] == run[-3:]


@pytest.mark.parametrize(
    "query",
    [
        TestQuery(WIDGETS, ("*a*b*c*",)),
        TestQuery(WIDGETS, ("*a?b?c*",)),
        TestQuery(WIDGETS, ("*rare*", "*a*b*")),
        TestQuery(WIDGETS, ("suite.*",), patterns_excluded=("*slow*",)),
        TestQuery(WIDGETS, ("*",), patterns_excluded=("suite.test[*]", "*slow*")),
    ],
)
def test_where_all_names_would_be_compared_the_first_rows_are_tried(query: TestQuery) -> None:
    assert find_shortcut(query) is Shortcut.SCAN


@pytest.mark.parametrize(
    "query",
    [
        # These walk few names as they are.
        TestQuery(WIDGETS, ("*",)),
        TestQuery(WIDGETS, ("suite.*", "name")),
        TestQuery(WIDGETS, ("suite.test[*]",)),
        TestQuery(WIDGETS, ("ab*c",)),
        TestQuery(WIDGETS, ("suite.*",), patterns_excluded=("suite.test[*]", "name")),
        TestQuery(WIDGETS, ("*rare*",), filepaths=("*.py",)),
        TestQuery(WIDGETS, ("*a*b*",), files=FileSelection(("a.py",))),
        # These cost much if a shortcut finds too many names.
        TestQuery(WIDGETS, tuple(f"*name {number}*" for number in range(100))),
        TestQuery(WIDGETS, ("*rare*",), patterns_excluded=("*" + "a" * 300,)),
    ],
)
def test_other_searches_walk_names_at_once(query: TestQuery) -> None:
    assert find_shortcut(query) is None


def filters_of(query: TestQuery) -> dict[str, Any]:
    shortcut = find_shortcut(query)
    assert shortcut is not None
    found: dict[str, Any] = make_shortcut_query(shortcut, query, ROUTING)["bool"]
    return found


def test_a_scan_filters_by_what_the_node_finds_quickly() -> None:
    query = TestQuery(
        WIDGETS, ("suite.*",), jobs=("linux",), patterns_excluded=("*slow*", "suite.a*")
    )
    found = filters_of(query)
    assert found["filter"] == [
        {"prefix": {"key": {"value": "r\0suite."}}},
        {"terms": {"job_name": ["linux"]}},
    ]
    assert found["must_not"] == [{"prefix": {"key": {"value": "r\0suite.a"}}}]
    everything = filters_of(TestQuery(WIDGETS, ("suite.*", "*a*b*")))
    assert everything["filter"] == [{"term": {"repository_id": ROUTING}}]


def test_names_and_prefixes_beside_trigrams_are_looked_up_as_always() -> None:
    filters = filters_of(TestQuery(WIDGETS, ("*rare*", "suite.*", "name"), jobs=("linux",)))
    names, jobs = filters["filter"]
    trigrams, others = names["bool"]["should"]
    assert trigrams["bool"]["filter"][0] == {"term": {"repository_id": ROUTING}}
    assert others["bool"]["should"] == [
        {"prefix": {"key": {"value": "r\0suite."}}},
        {"terms": {"key": ["r\0name"]}},
    ]
    assert jobs == {"terms": {"job_name": ["linux"]}}


def test_only_what_is_looked_up_is_excluded_by_the_node() -> None:
    query = TestQuery(WIDGETS, ("*rare*",), patterns_excluded=("suite.*", "name", "*other*"))
    assert filters_of(query)["must_not"][0]["bool"]["should"] == [
        {"prefix": {"key": {"value": "r\0suite."}}},
        {"terms": {"key": ["r\0name"]}},
    ]


NAMES = st.text("ab日🧪/_", max_size=8)


@given(st.text("ab日🧪*?/_", max_size=12), NAMES)
def test_every_match_has_the_trigrams_that_are_looked_up(pattern: str, filling: str) -> None:
    name = pattern.replace("*", filling).replace("?", "b")
    assert globs.matches(pattern, name)
    stored = trigrams_for(name)
    assert set(trigrams_in(pattern)) <= set(stored) or not can_look_up(pattern)
    for bigram in bigrams_in(pattern):
        assert any(trigram.startswith(bigram) for trigram in stored)


@pytest.mark.parametrize("length", [1, 500, 501, 8_000])
def test_a_row_has_a_bounded_number_of_terms(length: int) -> None:
    name = "".join(chr(0x4E00 + number) for number in range(length))
    assert 1 <= len(trigrams_for(name)) <= 500
    assert all(len(term) <= 4 for term in trigrams_for(name))


def test_ids_do_not_look_like_long_names() -> None:
    # All trigrams have at most three characters, so none is the term of long names.
    assert "long" not in trigrams_for(f"long-{uuid.UUID(int=7)}-long")
