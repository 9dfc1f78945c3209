"""The query of a test search: which parts of a pattern are literal, and what the engine skips."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing import globs
from indexing.models.file_selections import FileSelection
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.search.query import (
    MAX_MERGED,
    MAX_PATTERN_COST,
    Prepared,
    Width,
    choose_width,
    cost_of,
    files_clause,
    make_query,
    merge,
    widen,
)
from tests.builders import WIDGETS
from tests.growth import assert_linear

ROUTING = "r"


def names_clause(*patterns: str, width: Width = Width.EXACT) -> Any:
    query = make_query(TestQuery(WIDGETS, patterns), ROUTING, width=width)
    return query["bool"]["filter"][0]


@pytest.mark.parametrize(
    ("pattern", "clause"),
    [
        ("*", {"term": {"repository_id": ROUTING}}),
        ("***", {"term": {"repository_id": ROUTING}}),
        ("name", {"terms": {"key": ["r\0name"]}}),
        ("suite.*", {"prefix": {"key": {"value": "r\0suite."}}}),
        ("*rare*", {"wildcard": {"key": {"value": "r\0*rare*"}}}),
        ("a**b", {"wildcard": {"key": {"value": "r\0a*b"}}}),
        ("a?", {"wildcard": {"key": {"value": "r\0a?"}}}),
        ("\\*\\", {"wildcard": {"key": {"value": "r\0\\\\*\\\\"}}}),
        ("[x]{2}?", {"wildcard": {"key": {"value": "r\0[x]{2}?"}}}),
    ],
)
def test_a_pattern_walks_the_terms_of_its_repository_alone(
    pattern: str, clause: dict[str, Any]
) -> None:
    assert names_clause(pattern) == clause


@pytest.mark.parametrize(
    ("pattern", "same"), [("a*?b", "a?*b"), ("*??*", "??*"), ("a?**?", "a??*"), ("a?b*", "a?b*")]
)
def test_a_question_mark_beside_a_star_comes_before_it(pattern: str, same: str) -> None:
    assert names_clause(pattern) == {"wildcard": {"key": {"value": f"r\0{same}"}}}


def test_planning_takes_time_in_proportion_to_the_question_marks() -> None:
    def prepare(length: int) -> Callable[[], object]:
        pattern = "?" * length + "a"
        return lambda: names_clause(pattern, width=choose_width([pattern]))

    assert_linear(prepare, 4_000)


LONG = "".join(chr(97 + number * 7 % 26) for number in range(2_000))


@pytest.mark.parametrize(
    ("pattern", "wider"),
    [
        # A cheap pattern is never widened.
        ("*rare*", "*rare*"),
        ("a" * 2_000 + "*b", "a" * 2_000 + "*b"),
        ("??*a??b?", "??*a??b?"),
        # A question mark after a star is what makes an automaton large.
        ("??*aa??b???c", "??*aa*b*c"),
        ("x*ab??????", "x*ab*"),
        # A long pattern keeps its beginning, its end, and the longest part between.
        (f"x*{LONG}", f"x**{LONG[-128:]}"),
        (f"x*y*{LONG}*zz", f"x*{LONG[:254]}*zz"),
        ("?" * 2_000 + "b", "**b"),
    ],
)
def test_a_pattern_that_costs_too_much_is_widened(pattern: str, wider: str) -> None:
    assert widen([pattern], Width.WIDENED) == [[wider]]


@pytest.mark.parametrize(
    ("patterns", "width"),
    [
        (["*rare*"], Width.EXACT),
        (["a" * 2_000 + "*"] * 4, Width.EXACT),
        (["*" + "a" * 200], Width.EXACT),
        ([f"*name {number}*" for number in range(100)], Width.EXACT),
        ([f"*{'name' * 5} {number}*" for number in range(100)], Width.WIDENED),
        (["*" + "a" * 2_000], Width.WIDENED),
        (["*a" + "?" * 5 + "b"], Width.WIDENED),
        (["?" * 2_000], Width.WIDENED),
        (["*" + "?" * 2_000], Width.WIDENED),
    ],
)
def test_only_expensive_patterns_are_widened(patterns: list[str], width: Width) -> None:
    assert choose_width(patterns) is width


GLOB = st.text("ab*?", min_size=1, max_size=40)


@given(
    st.lists(GLOB | GLOB.map(lambda text: text * 30), min_size=1, max_size=100),
    st.text("ab", max_size=30),
    st.sampled_from(Width),
)
def test_what_matches_a_pattern_matches_a_wider_one(
    patterns: list[str], filling: str, width: Width
) -> None:
    groups = widen(patterns, width)
    for wider in chain.from_iterable(groups):
        assert width is Width.EXACT or cost_of(wider) <= MAX_PATTERN_COST
    for pattern in patterns[:5]:
        name = pattern.replace("*", filling).replace("?", "b")
        for group in groups:
            assert any(globs.matches(wider, name) for wider in group)


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("a?c", "abd", "a??"),
        ("?" * 8 + "17", "?" * 8 + "18", "?" * 8 + "1?"),
        # Different lengths: keep the first half of one as the beginning, the second half as the
        # end.
        ("???ab", "????ab", "???*ab"),
        ("ab*x*yz", "ac*wz", "a??*z"),
        ("*", "a?c", "*"),
    ],
)
def test_two_patterns_are_merged_into_one_that_matches_all_that_they_do(
    one: str, other: str, merged: str
) -> None:
    assert merge(one, other) == merged
    assert merge(other, one) == merged


@given(GLOB, GLOB, st.text("ab", max_size=10))
def test_what_matches_one_of_two_matches_both_merged(one: str, other: str, filling: str) -> None:
    for pattern in (one, other):
        name = pattern.replace("*", filling).replace("?", "b")
        assert globs.matches(merge(one, other), name)


def test_many_patterns_are_merged_into_few() -> None:
    patterns = ["?" * 65 + f"{number:03}" for number in range(100)]
    (wider,) = widen(patterns, Width.WIDENED)
    assert len(wider) <= MAX_MERGED
    assert all(len(pattern) == 68 and "*" not in pattern for pattern in wider)


def test_patterns_that_are_widened_to_one_are_still_as_long_as_they_were() -> None:
    patterns = ["?" * number + "a?????b" + "?" * (45 - number) for number in range(40)] * 2
    assert ["?" * 52] in widen(patterns, Width.WIDENED)


def test_names_that_are_too_short_are_left_out_by_the_engine() -> None:
    pattern = "*a" + "?" * 100
    clause = names_clause(pattern, width=Width.WIDENED)
    floor, wider = clause["bool"]["filter"]
    assert floor == {"wildcard": {"key": {"value": f"r\0{'?' * 101}*"}}}
    assert wider == {"wildcard": {"key": {"value": "r\0*a*"}}}


def test_several_patterns_match_what_any_of_them_does() -> None:
    assert names_clause("a*", "b", "c") == {
        "bool": {
            "should": [
                {"prefix": {"key": {"value": "r\0a"}}},
                {"terms": {"key": ["r\0b", "r\0c"]}},
            ]
        }
    }


def test_pipelines_and_jobs_are_included_and_excluded() -> None:
    query = TestQuery(WIDGETS, ("*",), pipelines=("p",), jobs=("a", "b"), jobs_excluded=("b",))
    assert make_query(query, ROUTING) == {
        "bool": {
            "filter": [
                {"term": {"repository_id": ROUTING}},
                {"terms": {"pipeline_name": ["p"]}},
                {"terms": {"job_name": ["a", "b"]}},
            ],
            "must_not": [{"terms": {"job_name": ["b"]}}],
        }
    }


@pytest.mark.parametrize("count", [0, 65_536, 150_000])
def test_any_number_of_values_is_split_as_a_cluster_accepts_them(count: int) -> None:
    ids = [f"{number:032x}" for number in range(count)]
    query = TestQuery(WIDGETS, ("*",), quarantined=True)
    found = make_query(query, ROUTING, Prepared(quarantined=ids))["bool"]["filter"][-1]
    assert terms_in(found, "test_id") == ids
    paths = files_clause(FileSelection(tuple(ids)), ROUTING)
    assert terms_in(paths, "file_key") == [f"{ROUTING}\0{path}" for path in ids]


def terms_in(clause: Any, field: str) -> list[str]:
    """Return the values of a clause, each part of which is as long as a cluster accepts."""
    read = orjson.loads(orjson.dumps(clause))
    parts = [
        part["terms"][field] for part in (read["bool"]["should"] if "bool" in read else [read])
    ]
    assert max(map(len, parts)) <= 65_536
    return [value for part in parts for value in part]
