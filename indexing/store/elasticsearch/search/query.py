"""From a question about tests to the query that finds them. Pure: nothing is asked here.

The key of an identity begins with its repository, so a pattern walks the terms of that repository
alone, however many others share the shard.

The engine makes an automaton of each pattern, in time and memory that grow with it. Patterns that
are too expensive are widened: they find all that they should and more, and the oracle
(`indexing.globs`) drops what does not match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import reduce
from math import inf
from typing import Any, Final

from indexing.globs import is_literal, literal_prefix, literal_runs
from indexing.models.tests import IdentityKey, TestQuery, TestSort

# Every order ends in the three names, which are unique together.
ORDERS: Final = {
    TestSort.EXECUTIONS_COUNT: ("executions_count", "test_name", "pipeline_name", "job_name"),
    TestSort.TEST_NAME: ("test_name", "pipeline_name", "job_name"),
    TestSort.PIPELINE_NAME: ("pipeline_name", "test_name", "job_name"),
    TestSort.JOB_NAME: ("job_name", "test_name", "pipeline_name"),
}

# What the automata of one search may cost, and that of one pattern, in characters. Measured on a
# node with a heap of 512 MB: 0.2 ms a character, 2.5 ms a pattern. Beyond, 100 patterns of 70
# characters took 1.4 s, and twenty such searches at once kept everybody else waiting for as long.
MAX_COST: Final = 1_000
MAX_PATTERN_COST: Final = 256
# Each `?` somewhere behind a `*` doubles the automaton.
MAX_GAPS: Final = 4
# A search of more cost or more patterns than this waits for its turn.
CHEAP_COST: Final = 200
CHEAP_PATTERNS: Final = 16
# Each automaton walks all names: more patterns than `MAX_WIDENED` are merged into so many, and the
# oracle tells them apart. Eight merged ones took 4 s over 100,000 names, two of them 0.2 s.
MAX_WIDENED: Final = 8
MAX_MERGED: Final = 2
# Names that are shorter than all patterns are left out by the engine, up to this length.
_MAX_FLOOR: Final = 128
_MIN_FLOOR: Final = 16

# Lucene reads a backslash as the escape of what follows it.
_ESCAPED: Final = re.compile(r"\\")
_WILDCARDS: Final = re.compile(r"[*?]+")


class Width(Enum):
    """How exactly the engine is asked; what it finds beyond that the oracle drops."""

    EXACT = 0
    WIDENED = 1
    PREFIX = 2


def choose_width(patterns: Sequence[str]) -> Width:
    """The most exact way to ask that the engine can afford."""
    globs = _globs(patterns)
    room = _room(globs)
    fits = all(cost_of(pattern) <= room for pattern in globs)
    return Width.EXACT if fits or sum(map(cost_of, globs)) <= MAX_PATTERN_COST else Width.WIDENED


def is_cheap(patterns: Sequence[str]) -> bool:
    """Whether the engine answers as soon as it is asked, however many ask."""
    globs = _globs(patterns)
    return len(globs) <= CHEAP_PATTERNS and sum(map(cost_of, globs)) <= CHEAP_COST


def key_of(routing: str, test_name: str) -> str:
    """The value of `key` of a test's identities."""
    return f"{routing}\0{test_name}"


def values_of(key: IdentityKey, sort: TestSort) -> tuple[Any, ...]:
    """Where a row lies in an order."""
    return tuple(getattr(key, column) for column in ORDERS[sort])


def make_query(query: TestQuery, routing: str, *, width: Width = Width.EXACT) -> dict[str, Any]:
    """The query for all rows; a wider one finds rows that do not match and costs less."""
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
    globs = _globs(patterns)
    groups = widen(globs, width)
    floor = min(map(_shortest, globs), default=0)
    if width is not Width.EXACT and floor >= _MIN_FLOOR:
        groups = [["?" * min(floor, _MAX_FLOOR) + "*"], *groups]
    each = [_any_clause([_pattern_clause(glob, routing) for glob in group]) for group in groups]
    clauses = [each[0] if len(each) == 1 else {"bool": {"filter": each}}] if globs else []
    if literals:
        clauses.append({"terms": {"key": literals}})
    return _any_clause(clauses)


def _any_clause(clauses: list[dict[str, Any]]) -> dict[str, Any]:
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses}}


def _pattern_clause(pattern: str, routing: str) -> dict[str, Any]:
    prefix = literal_prefix(pattern)
    if pattern[len(prefix) :].strip("*") == "":
        return {"prefix": {"key": {"value": key_of(routing, prefix)}}}
    escaped = _ESCAPED.sub(r"\\\\", pattern)
    return {"wildcard": {"key": {"value": key_of(routing, escaped)}}}


def widen(globs: Sequence[str], width: Width) -> list[list[str]]:
    """Groups of patterns: a name that matches any of `globs` matches a pattern of each group.

    Within a group each pattern is there once. None costs more than its share, but for a width of
    `EXACT`.
    """
    if width is Width.EXACT:
        return [[*globs]]
    if width is Width.PREFIX:
        return [[*dict.fromkeys(literal_prefix(pattern) + "*" for pattern in globs)]]
    fitting, merged = _fit_all(globs), _fit_all(_merge_many(globs))
    if len(fitting) > MAX_WIDENED:
        return [merged]
    # Many patterns may be widened to one that matches everything: what they share tells more.
    return [fitting] if len(globs) <= MAX_WIDENED else [merged, fitting]


def _fit_all(globs: Sequence[str]) -> list[str]:
    room = _room(globs)
    return [*dict.fromkeys(_fit(pattern, room) for pattern in globs)]


def _merge_many(globs: Sequence[str]) -> list[str]:
    """At most `MAX_MERGED` patterns that match all that these do; those alike become one."""
    alike = sorted(globs, key=lambda glob: (0 if "*" in glob else len(glob), glob))
    size = -(-len(alike) // MAX_MERGED)
    return [reduce(merge, alike[at : at + size]) for at in range(0, len(alike), size)]


def merge(one: str, other: str) -> str:
    """A pattern that matches all that either does: what they begin with and end in alike."""
    if "*" not in one + other and len(one) == len(other):
        return _align(one, other)
    (head, tail), (other_head, other_tail) = _ends(one), _ends(other)
    merged_tail = _align(tail[::-1], other_tail[::-1])[::-1]
    return _WILDCARDS.sub(_reorder, f"{_align(head, other_head)}*{merged_tail}")


def _align(one: str, other: str) -> str:
    """The characters that are equal in both, as far as the shorter one goes; else `?`."""
    return "".join(a if a == b else "?" for a, b in zip(one, other, strict=False))


def _ends(pattern: str) -> tuple[str, str]:
    """What is before the first `*` and behind the last one; halves where there is none."""
    if "*" in pattern:
        return pattern.partition("*")[0], pattern.rpartition("*")[2]
    half = len(pattern) // 2
    return pattern[:half], pattern[half:]


def _fit(pattern: str, room: int) -> str:
    """The pattern, or one that matches all that it does and costs so much."""
    head, star, tail = pattern.partition("*")
    for wider in (pattern, head + star + _WILDCARDS.sub("*", tail)):
        if cost_of(wider) <= room:
            return wider
    prefix = literal_prefix(pattern)
    # How it ends and the longest run before that tell names apart best.
    *_, suffix = _WILDCARDS.split(pattern[len(prefix) :])
    runs = literal_runs(pattern[len(prefix) : len(pattern) - len(suffix)])
    suffix = suffix[-room // 2 :]
    run = max(runs, key=len, default="")[: room - len(suffix)]
    return f"{prefix}*{run}*{suffix}"


def _room(globs: Sequence[str]) -> int:
    """What the automaton of each of these may cost."""
    return min(MAX_PATTERN_COST, MAX_COST // max(1, len(globs)))


def _globs(patterns: Sequence[str]) -> list[str]:
    """Those that are no whole names; each `?` beside a `*` comes before it, which is the same."""
    return [_WILDCARDS.sub(_reorder, pattern) for pattern in patterns if not is_literal(pattern)]


def _reorder(run: re.Match[str]) -> str:
    """The same wildcards: each `?` first, then one `*` where there is any."""
    return "?" * run[0].count("?") + "*" * ("*" in run[0])


def cost_of(pattern: str) -> float:
    """What the automaton of a pattern costs; a literal head costs next to nothing."""
    head, _, tail = pattern.partition("*")
    return head.count("?") + len(tail) if tail.count("?") <= MAX_GAPS else inf


def _shortest(pattern: str) -> int:
    """How many characters a matching name has at least."""
    return len(pattern) - pattern.count("*")


def _any_of(field: str, values: Iterable[str]) -> Iterable[Mapping[str, Any]]:
    given = list(values)
    return [{"terms": {field: given}}] if given else []
