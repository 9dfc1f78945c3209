"""Builds the query of a test search by the trigrams of names. Pure.

A pattern is compared with all names of its repository. Trigrams find the rows at once that have
them, and most of these match; the exact matcher (`indexing.globs`) drops the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indexing.globs import is_literal
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


def can_use_trigrams(query: TestQuery) -> bool:
    """Return whether trigrams narrow the search down by all of its patterns.

    A search that costs much is left out: where trigrams find too many rows that do not match, it
    has to be made after all.
    """
    walking = _split(query.patterns)[1]
    filters_files = bool(query.filepaths) or query.files is not None
    return (
        bool(walking)
        and not filters_files
        and all(map(can_look_up, walking))
        and is_cheap(all_patterns(query))
    )


def make_trigram_query(
    query: TestQuery, routing: str, prepared: Prepared | None = None
) -> dict[str, Any]:
    """Build the query of a search that can use trigrams; it also finds rows that do not match."""
    quick, walking = _split(query.patterns)
    clauses = [ngrams_clause(pattern, routing) for pattern in walking]
    if quick:
        clauses.append(names_clause(quick, routing))
    # To exclude other patterns, all names would have to be compared with them.
    excluded, _ = _split(query.patterns_excluded)
    return with_filters(query, routing, prepared, [any_clause(clauses)], excluded)


def _split(patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the patterns that are compared with few other names, and those that walk all names."""
    quick: list[str] = []
    walking: list[str] = []
    for pattern in patterns:
        (quick if is_literal(pattern) or is_prefix(pattern) else walking).append(pattern)
    return quick, walking
