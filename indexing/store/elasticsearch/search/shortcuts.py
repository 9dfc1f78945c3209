"""Builds the queries of test searches that compare no names with patterns. Pure.

A pattern is compared with all names of its repository before the first row is found. A shortcut
finds rows at once, of which some do not match; the exact matcher (`indexing.globs`) drops those:

- Trigrams find the rows that have those of the pattern. Most of these match.
- A scan finds the first rows of the repository, or of the literal prefixes of the patterns. If many
  names match, as those with an `a`, a `b` and a `c` in this order do, or those without `slow`,
  these fill a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from indexing.globs import is_literal, literal_prefix
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.indices.name_trigrams import can_look_up, ngrams_clause
from indexing.store.elasticsearch.search.query import (
    Prepared,
    all_patterns,
    any_clause,
    is_cheap,
    is_prefix,
    names_clause,
    with_filters,
)


class Shortcut(Enum):
    """A query that also finds rows that do not match.

    The value is how many rows a search reads beside those of its page.
    """

    TRIGRAMS = 10
    # A page of ten is filled if one name in ten matches.
    SCAN = 100


def find_shortcut(query: TestQuery) -> Shortcut | None:
    """Return how to search without comparing all names with a pattern, or `None` if no way helps.

    Searches that compare few names anyway have no shortcut. Nor have those that cost much: where
    a shortcut finds too many rows that do not match, the search has to be made after all.
    """
    if query.filepaths or query.files is not None or not is_cheap(all_patterns(query)):
        return None
    walking = _split(query.patterns)[1]
    if walking and all(map(can_look_up, walking)):
        return Shortcut.TRIGRAMS
    walking += _split(query.patterns_excluded)[1]
    # Few names have the literal prefix of a pattern.
    return None if all(map(literal_prefix, walking)) else Shortcut.SCAN


def make_shortcut_query(
    shortcut: Shortcut, query: TestQuery, routing: str, prepared: Prepared | None = None
) -> dict[str, Any]:
    """Build the query of a search by the shortcut that `find_shortcut` returns for it."""
    quick, walking = _split(query.patterns)
    if shortcut is Shortcut.SCAN:
        prefixes = [f"{literal_prefix(pattern)}*" for pattern in walking]
        names = names_clause([*quick, *prefixes], routing)
    else:
        clauses = [ngrams_clause(pattern, routing) for pattern in walking]
        names = any_clause([*clauses, names_clause(quick, routing)] if quick else clauses)
    # To exclude other patterns, all names would have to be compared with them.
    excluded, _ = _split(query.patterns_excluded)
    return with_filters(query, routing, prepared, [names], excluded)


def _split(patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the patterns that are compared with few other names, and those that walk all names."""
    quick: list[str] = []
    walking: list[str] = []
    for pattern in patterns:
        (quick if is_literal(pattern) or is_prefix(pattern) else walking).append(pattern)
    return quick, walking
