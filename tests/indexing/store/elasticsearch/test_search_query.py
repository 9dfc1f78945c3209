"""The query of a test search: what of a pattern is literal, and what the engine is spared."""

from __future__ import annotations

from typing import Any

import pytest

from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.search_query import Width, make_query
from tests.builders import WIDGETS

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
    ("pattern", "wider"),
    [("??*a??b?", "??*a*b*"), ("x*????", "x*"), ("*a?*?c", "*a*c")],
)
def test_a_widened_pattern_has_no_question_mark_behind_a_star(pattern: str, wider: str) -> None:
    assert names_clause(pattern, width=Width.WIDENED) == {
        "wildcard": {"key": {"value": f"r\0{wider}"}}
    }


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
