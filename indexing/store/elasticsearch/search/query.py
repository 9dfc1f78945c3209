"""Builds the Elasticsearch query of a test search. Pure.

The key of an identity begins with its repository, so a pattern scans only the terms of that
repository, however many others share the shard.

The engine compiles each pattern to an automaton; time and memory grow with the pattern. Patterns
that are too expensive are widened: a widened pattern matches at least the same names, and the exact
matcher (`indexing.globs`) then drops the rows that do not match.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from math import inf
from typing import Any, Final

import orjson

from indexing.globs import is_literal, literal_prefix, literal_runs
from indexing.models.file_selections import FileSelection
from indexing.models.tests import (
    HEALTH_NUMBERS,
    NO_VALUE,
    VALUE_SORTS,
    HealthStatus,
    IdentityKey,
    TestQuery,
    TestSort,
    number_statuses,
)
from indexing.store.elasticsearch.client.clauses import any_of

# The fields that patterns are matched with.
NAME: Final = "key"
FILE: Final = "file_key"

# Every sort key contains the three names, which are unique together. In one repository, the order
# by `NAME` is that by test name. `NAME` is indexed, so the engine reads only the names that may be
# on the page. The order by executions is that of the index, which contains the test name.
ORDERS: Final = {
    TestSort.EXECUTIONS_COUNT: ("executions_count", "test_name", "pipeline_name", "job_name"),
    TestSort.TEST_NAME: (NAME, "pipeline_name", "job_name"),
    TestSort.PIPELINE_NAME: ("pipeline_name", NAME, "job_name"),
    TestSort.JOB_NAME: ("job_name", NAME, "pipeline_name"),
    **{sort: (sort.value, NAME, "pipeline_name", "job_name") for sort in VALUE_SORTS},
}
# The orders in which many rows have the same first value, whatever it is.
_TIED_SORTS: Final = frozenset(
    {
        TestSort.PIPELINE_NAME,
        TestSort.JOB_NAME,
        TestSort.HEALTH_STATUS,
        TestSort.FAILED_EXECUTIONS_COUNT,
    }
)

# The longest prefix that an index accepts by default, in UTF-16 code units. A wildcard query has no
# such limit.
_MAX_PREFIX: Final = 1_000
# The most terms of one clause that a cluster accepts by default.
_MAX_TERMS: Final = 65_536

# The values that count for rows of an earlier release, which lack these fields.
MISSING: Final[Mapping[str, float]] = {
    TestSort.HEALTH_STATUS.value: HEALTH_NUMBERS[HealthStatus.UNKNOWN],
    TestSort.FAILED_EXECUTIONS_COUNT.value: 0,
    TestSort.FAILURE_RATIO.value: 0,
    TestSort.FLAKINESS_RATIO.value: 0,
    TestSort.MEAN_DURATION.value: NO_VALUE,
    TestSort.LAST_FAILURE_AT.value: NO_VALUE,
}

# The highest cost of all automata of one search, and of one pattern, in characters. Measured on a
# node with a heap of 512 MB: 0.2 ms for each character, 2.5 ms for each pattern. Above the limit,
# 100 patterns of 70 characters took 1.4 s, and twenty such searches at once delayed all other
# requests for as long.
MAX_COST: Final = 1_000
MAX_PATTERN_COST: Final = 256
# Each `?` after a `*` doubles the size of the automaton.
MAX_GAPS: Final = 4
# A search with more cost or more patterns than this waits in the search queue.
CHEAP_COST: Final = 200
CHEAP_PATTERNS: Final = 16
# Each automaton scans all names. More than `MAX_WIDENED` patterns are merged into `MAX_MERGED`, and
# the exact matcher drops the surplus. Over 100,000 names, eight merged patterns took 4 s, two took
# 0.2 s.
MAX_WIDENED: Final = 8
MAX_MERGED: Final = 2
# The engine filters out names that are shorter than every pattern, if the shortest match has a
# length of at least `_MIN_FLOOR`; it checks no more than `_MAX_FLOOR` characters.
_MAX_FLOOR: Final = 128
_MIN_FLOOR: Final = 16

# Lucene reads a backslash as an escape character.
_ESCAPED: Final = re.compile(r"\\")
_WILDCARDS: Final = re.compile(r"[*?]+")


class Width(Enum):
    """How exactly the query matches; the exact matcher drops the surplus rows of wider queries."""

    EXACT = 0
    WIDENED = 1
    PREFIX = 2


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a query filters by, besides what its rows say.

    `quarantined` are the ids of the quarantined tests, if the query filters by that. `files` is the
    clause of its files (`files_clause`), if it has any.
    """

    quarantined: Collection[str] = ()
    files: Mapping[str, Any] | None = None


def choose_width(patterns: Sequence[str]) -> Width:
    """Return the most exact width that the engine can afford."""
    globs = _globs(patterns)
    room = _room(globs)
    fits = all(cost_of(pattern) <= room for pattern in globs)
    return Width.EXACT if fits or sum(map(cost_of, globs)) <= MAX_PATTERN_COST else Width.WIDENED


def is_cheap(patterns: Sequence[str]) -> bool:
    """Return whether the search is cheap enough to run without queueing."""
    globs = _globs(patterns)
    return len(globs) <= CHEAP_PATTERNS and sum(map(cost_of, globs)) <= CHEAP_COST


def all_patterns(query: TestQuery) -> tuple[str, ...]:
    """Return the patterns of names and files, also of names that are excluded."""
    return (*query.patterns, *query.patterns_excluded, *query.filepaths)


def is_prefix(pattern: str) -> bool:
    """Return whether the pattern walks only names that match it."""
    return pattern[len(literal_prefix(pattern)) :].strip("*") == ""


def key_of(routing: str, text: str) -> str:
    """Return the value of the field `key` for a name, or of `file_key` for a file."""
    return f"{routing}\0{text}"


def values_of(key: IdentityKey, sort: TestSort, routing: str) -> tuple[Any, ...]:
    """Return the values of the fields of `ORDERS` for a row."""
    values = {**key._asdict(), NAME: key_of(routing, key.test_name)}
    if sort in VALUE_SORTS:
        values[sort.value] = key.value
    return tuple(values[field] for field in ORDERS[sort])


def is_tied(key: IdentityKey, sort: TestSort) -> bool:
    """Return whether many other rows may have the first value of this sort key."""
    # For example, many tests have no failures, but few have failed at the same time.
    return sort in _TIED_SORTS or (sort in VALUE_SORTS and key.value == MISSING[sort.value])


def name_in(values: Sequence[Any], sort: TestSort) -> str:
    """Return the test name in the values of the fields of `ORDERS`."""
    order = ORDERS[sort]
    if NAME not in order:
        return str(values[order.index("test_name")])
    return str(values[order.index(NAME)]).partition("\0")[2]


def make_query(
    query: TestQuery,
    routing: str,
    prepared: Prepared | None = None,
    *,
    width: Width = Width.EXACT,
) -> dict[str, Any]:
    """Build the query; a wider one costs less but also finds rows that do not match."""
    names = [names_clause(query.patterns, routing, width=width)]
    if query.filepaths:
        names.append(names_clause(query.filepaths, routing, width=width, field=FILE))
    # A widened pattern would also exclude rows that match the query.
    excluded = query.patterns_excluded if width is Width.EXACT else ()
    return with_filters(query, routing, prepared, names, excluded)


def with_filters(
    query: TestQuery,
    routing: str,
    prepared: Prepared | None,
    names: Sequence[Mapping[str, Any]],
    names_excluded: Sequence[str],
) -> dict[str, Any]:
    """Build the query of these clauses of names and files, and of all other filters of the search.

    Rows that match `names_excluded` are left out; so these patterns must be exact.
    """
    prepared = prepared or Prepared()
    filters: list[Mapping[str, Any]] = [
        *names,
        *any_of({"pipeline_name": query.pipelines, "job_name": query.jobs}),
    ]
    if query.health is not None:
        filters.append({"terms": {"health_status": number_statuses(query.health)}})
    if prepared.files is not None:
        filters.append(prepared.files)
    excluded: list[Mapping[str, Any]] = [
        *any_of({"pipeline_name": query.pipelines_excluded, "job_name": query.jobs_excluded})
    ]
    if names_excluded:
        excluded.append(names_clause(names_excluded, routing))
    if query.quarantined is not None:
        listed = _terms_clause("test_id", sorted(prepared.quarantined))
        (filters if query.quarantined else excluded).append(listed)
    found: dict[str, Any] = {"filter": filters}
    if excluded:
        found["must_not"] = excluded
    return {"bool": found}


def files_clause(files: FileSelection, routing: str) -> dict[str, Any]:
    """Build the clause that a test is of one of the files."""
    listed = _terms_clause(FILE, [key_of(routing, path) for path in files.paths])
    if not files.without_file:
        return listed
    return any_clause([{"bool": {"must_not": [{"exists": {"field": FILE}}]}}, listed])


def _terms_clause(field: str, values: Sequence[str]) -> dict[str, Any]:
    """Build the clause that a field has one of these values, of which there may be any number."""
    pieces = [
        # Encoded once for all requests of a search.
        {"terms": {field: orjson.Fragment(orjson.dumps(values[at : at + _MAX_TERMS]))}}
        for at in range(0, max(1, len(values)), _MAX_TERMS)
    ]
    return pieces[0] if len(pieces) == 1 else any_clause(pieces)


def names_clause(
    patterns: Sequence[str], routing: str, *, width: Width = Width.EXACT, field: str = NAME
) -> dict[str, Any]:
    """Build the clause that `field` matches any of the patterns; its values are from `key_of`."""
    if any(not pattern.strip("*") for pattern in patterns):
        if field == FILE:
            return {"exists": {"field": FILE}}
        return {"term": {"repository_id": routing}}
    literals = [key_of(routing, pattern) for pattern in patterns if is_literal(pattern)]
    globs = _globs(patterns)
    groups = widen(globs, width)
    floor = min(map(_shortest, globs), default=0)
    if width is not Width.EXACT and floor >= _MIN_FLOOR:
        groups = [["?" * min(floor, _MAX_FLOOR) + "*"], *groups]
    each = [
        any_clause([_pattern_clause(glob, routing, field) for glob in group]) for group in groups
    ]
    clauses = [each[0] if len(each) == 1 else {"bool": {"filter": each}}] if globs else []
    if literals:
        clauses.append({"terms": {field: literals}})
    return any_clause(clauses)


def any_clause(clauses: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the clause that any of these clauses is met."""
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses}}


def _pattern_clause(pattern: str, routing: str, field: str) -> dict[str, Any]:
    prefix = literal_prefix(pattern)
    if is_prefix(pattern):
        key = key_of(routing, prefix)
        if len(key.encode("utf-16-le", "surrogatepass")) <= 2 * _MAX_PREFIX:
            return {"prefix": {field: {"value": key}}}
    escaped = _ESCAPED.sub(r"\\\\", pattern)
    return {"wildcard": {field: {"value": key_of(routing, escaped)}}}


def widen(globs: Sequence[str], width: Width) -> list[list[str]]:
    """Return groups of patterns such that a name that matches any of `globs` matches every group.

    A name matches a group if it matches one of its patterns. A group has no duplicates. Except with
    `EXACT`, no pattern costs more than its share of `MAX_COST`.
    """
    if width is Width.EXACT or not globs:
        return [[*globs]]
    if width is Width.PREFIX:
        return [[*dict.fromkeys(literal_prefix(pattern) + "*" for pattern in globs)]]
    fitting, merged = _fit_all(globs), _fit_all(_merge_many(globs))
    if len(fitting) > MAX_WIDENED:
        return [merged]
    # Widening many patterns may leave one that matches everything; the merged ones filter better.
    return [fitting] if len(globs) <= MAX_WIDENED else [merged, fitting]


def _fit_all(globs: Sequence[str]) -> list[str]:
    room = _room(globs)
    return [*dict.fromkeys(_fit(pattern, room) for pattern in globs)]


def _merge_many(globs: Sequence[str]) -> list[str]:
    """Merge similar patterns into at most `MAX_MERGED`, which match at least the same names."""
    alike = sorted(globs, key=lambda glob: (0 if "*" in glob else len(glob), glob))
    size = -(-len(alike) // MAX_MERGED)
    return [reduce(merge, alike[at : at + size]) for at in range(0, len(alike), size)]


def merge(one: str, other: str) -> str:
    """Return a pattern that matches all names that either one matches.

    It consists of their common start and end.
    """
    if "*" not in one + other and len(one) == len(other):
        return _align(one, other)
    (head, tail), (other_head, other_tail) = _ends(one), _ends(other)
    merged_tail = _align(tail[::-1], other_tail[::-1])[::-1]
    return _WILDCARDS.sub(_reorder, f"{_align(head, other_head)}*{merged_tail}")


def _align(one: str, other: str) -> str:
    """Return the characters that are equal in both, else `?`, up to the shorter length."""
    return "".join(a if a == b else "?" for a, b in zip(one, other, strict=False))


def _ends(pattern: str) -> tuple[str, str]:
    """Return the parts before the first `*` and after the last; without `*`, the two halves."""
    if "*" in pattern:
        return pattern.partition("*")[0], pattern.rpartition("*")[2]
    half = len(pattern) // 2
    return pattern[:half], pattern[half:]


def _fit(pattern: str, room: int) -> str:
    """Return the pattern, or a wider one that costs at most `room`."""
    head, star, tail = pattern.partition("*")
    for wider in (pattern, head + star + _WILDCARDS.sub("*", tail)):
        if cost_of(wider) <= room:
            return wider
    prefix = literal_prefix(pattern)
    # Keep its end and the longest literal run before that: these exclude the most names.
    *_, suffix = _WILDCARDS.split(pattern[len(prefix) :])
    runs = literal_runs(pattern[len(prefix) : len(pattern) - len(suffix)])
    suffix = suffix[-room // 2 :]
    run = max(runs, key=len, default="")[: room - len(suffix)]
    return f"{prefix}*{run}*{suffix}"


def _room(globs: Sequence[str]) -> int:
    """Return the highest cost of the automaton of each of these patterns."""
    return min(MAX_PATTERN_COST, MAX_COST // max(1, len(globs)))


def _globs(patterns: Sequence[str]) -> list[str]:
    """Return the patterns that are no literals, with each `?` moved before an adjacent `*`."""
    return [_WILDCARDS.sub(_reorder, pattern) for pattern in patterns if not is_literal(pattern)]


def _reorder(run: re.Match[str]) -> str:
    """Return equivalent wildcards: each `?` first, then one `*` if there is any."""
    return "?" * run[0].count("?") + "*" * ("*" in run[0])


def cost_of(pattern: str) -> float:
    """Return the cost of a pattern's automaton; a literal head costs almost nothing."""
    head, _, tail = pattern.partition("*")
    return head.count("?") + len(tail) if tail.count("?") <= MAX_GAPS else inf


def _shortest(pattern: str) -> int:
    """Return the length of the shortest matching name."""
    return len(pattern) - pattern.count("*")
