"""From a question about tests to the query that finds them. Pure: nothing is asked here.

The key of an identity begins with its repository, so a pattern walks the terms of that repository
alone, however many others share the shard. Patterns that the engine gives up on are widened, and
what they find too much is left out by the oracle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from indexing.globs import is_literal, literal_prefix
from indexing.models.tests import IdentityKey, TestQuery, TestSort

# Every order ends in the three names, which are unique together.
ORDERS: Final = {
    TestSort.EXECUTIONS_COUNT: ("executions_count", "test_name", "pipeline_name", "job_name"),
    TestSort.TEST_NAME: ("test_name", "pipeline_name", "job_name"),
    TestSort.PIPELINE_NAME: ("pipeline_name", "test_name", "job_name"),
    TestSort.JOB_NAME: ("job_name", "test_name", "pipeline_name"),
}

# Lucene reads a backslash as the escape of what follows it.
_ESCAPED: Final = re.compile(r"\\")
_STARS: Final = re.compile(r"\*\*+")
_WILDCARDS: Final = re.compile(r"[*?]+")


class Width(Enum):
    """How exactly the engine is asked; what it finds too many the oracle leaves out."""

    EXACT = 0
    WIDENED = 1
    PREFIX = 2


def key_of(routing: str, test_name: str) -> str:
    """The value of `key` of a test's identities."""
    return f"{routing}\0{test_name}"


def values_of(key: IdentityKey, sort: TestSort) -> tuple[Any, ...]:
    """Where a row lies in an order."""
    return tuple(getattr(key, column) for column in ORDERS[sort])


def make_query(query: TestQuery, routing: str, *, width: Width = Width.EXACT) -> dict[str, Any]:
    """The query for all rows; a wider one finds more too many and costs the engine less."""
    filters = [
        _names_clause(query.patterns, routing, width=width),
        *_any_of("pipeline_name", query.pipelines),
        *_any_of("job_name", query.jobs),
    ]
    excluded = [
        *_any_of("pipeline_name", query.pipelines_excluded),
        *_any_of("job_name", query.jobs_excluded),
    ]
    found: dict[str, Any] = {"filter": filters}
    if excluded:
        found["must_not"] = excluded
    return {"bool": found}


def _names_clause(patterns: Sequence[str], routing: str, *, width: Width) -> dict[str, Any]:
    if any(not pattern.strip("*") for pattern in patterns):
        return {"term": {"repository_id": routing}}
    literals = [key_of(routing, pattern) for pattern in patterns if is_literal(pattern)]
    clauses = [
        _pattern_clause(pattern, routing, width=width)
        for pattern in patterns
        if not is_literal(pattern)
    ]
    if literals:
        clauses.append({"terms": {"key": literals}})
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses}}


def _pattern_clause(pattern: str, routing: str, *, width: Width) -> dict[str, Any]:
    prefix = literal_prefix(pattern)
    if width is Width.PREFIX or pattern[len(prefix) :].strip("*") == "":
        return {"prefix": {"key": {"value": key_of(routing, prefix)}}}
    if width is Width.WIDENED:
        # What makes an automaton large is a question mark behind a star.
        head, star, tail = pattern.partition("*")
        pattern = head + _WILDCARDS.sub("*", star + tail)
    escaped = _STARS.sub("*", _ESCAPED.sub(r"\\\\", pattern))
    return {"wildcard": {"key": {"value": key_of(routing, escaped)}}}


def _any_of(field: str, values: Iterable[str]) -> Iterable[Mapping[str, Any]]:
    given = list(values)
    return [{"terms": {field: given}}] if given else []
