"""Builds the query of a test search by the trigrams of names. Pure.

A pattern is compared with all names of its repository. Trigrams find the rows at once that have
them, and most of these match; the exact matcher (`indexing.globs`) drops the others.
"""

from __future__ import annotations

from typing import Any

from indexing.globs import is_literal
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.indices.name_trigrams import has_trigrams, trigrams_clause
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
    walking = [pattern for pattern in query.patterns if not _is_quick(pattern)]
    filters_files = bool(query.filepaths) or query.files is not None
    return (
        bool(walking)
        and not filters_files
        and all(map(has_trigrams, walking))
        and is_cheap(all_patterns(query))
    )


def make_trigram_query(
    query: TestQuery, routing: str, prepared: Prepared | None = None
) -> dict[str, Any]:
    """Build the query of a search that can use trigrams; it also finds rows that do not match."""
    quick = [pattern for pattern in query.patterns if _is_quick(pattern)]
    clauses = [
        trigrams_clause(pattern, routing) for pattern in query.patterns if not _is_quick(pattern)
    ]
    if quick:
        clauses.append(names_clause(quick, routing))
    # To exclude other patterns, all names would have to be compared with them.
    excluded = [pattern for pattern in query.patterns_excluded if _is_quick(pattern)]
    return with_filters(query, routing, prepared, [any_clause(clauses)], excluded)


def _is_quick(pattern: str) -> bool:
    """Return whether the pattern is compared with few names that do not match."""
    return is_literal(pattern) or is_prefix(pattern)
