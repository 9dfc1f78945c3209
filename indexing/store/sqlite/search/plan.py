"""Plans how a test search reads the indexes, as pieces of SQL. Pure: runs no query.

There are two ways to a page. *In order*: walk the index of the sort order and keep what matches;
best if much matches. *By candidates*: look up the few names that can match, by a common prefix or
by their trigrams, and sort them; best if little matches. Which one is best shows only while
reading: `strategy.py` says which are tried, and in which order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from indexing.globs import is_literal, literal_prefix, literal_runs
from indexing.models.tests import VALUE_SORTS, TestQuery, TestSort
from indexing.store.sqlite.search.conditions import CONFUSED_BY_GLOB, Sql, list_marks

# Every sort order ends in the three names, which are unique together.
ORDERS: Final = {
    TestSort.EXECUTIONS_COUNT: ("executions_count", "test_name", "pipeline_name", "job_name"),
    TestSort.TEST_NAME: ("test_name", "pipeline_name", "job_name"),
    TestSort.PIPELINE_NAME: ("pipeline_name", "test_name", "job_name"),
    TestSort.JOB_NAME: ("job_name", "test_name", "pipeline_name"),
    **{sort: (sort.value, "test_name", "pipeline_name", "job_name") for sort in VALUE_SORTS},
}

# More trigrams of one pattern hardly narrow further, and each adds a list to intersect.
_MAX_TRIGRAMS: Final = 12
_TRIGRAM: Final = 3

# Digits of a repository's mark in the trigram index: the last private plane of Unicode.
_MARK_START: Final = 0x100000
_MARK_BASE: Final = 0xFFFE

_HIGHEST: Final = 0x10FFFF


def prefix_bounds(query: TestQuery) -> tuple[str, str | None] | None:
    """Return the range [lower, upper) of names of all matches, if there is one pattern.

    `None` if every name is in it; an upper bound of `None` if no name lies above it.
    """
    if len(query.patterns) != 1:
        return None
    prefix = literal_prefix(query.patterns[0])
    return (prefix, upper_bound(prefix)) if prefix else None


@dataclass(frozen=True, slots=True)
class NameRange:
    """The names between two bounds; `exact` if the range alone is the full condition."""

    condition: Sql
    exact: bool


def name_range(query: TestQuery) -> NameRange | None:
    """Return the range of names if it alone narrows: one pattern without further trigrams.

    Reading a range of names is faster than intersecting the trigrams of its prefix.
    """
    bounds = prefix_bounds(query)
    if bounds is None:
        return None
    rest = query.patterns[0][len(bounds[0]) :]
    if _trigrams(rest):
        return None
    return NameRange(_between(*bounds), exact=bool(rest) and not rest.strip("*"))


class Narrowing(Enum):
    """How candidates are found, for all patterns that are not whole names."""

    # At least one pattern can match anything.
    NOTHING = "nothing"
    RANGES = "ranges"
    # At least one pattern needs trigrams.
    TRIGRAMS = "trigrams"


def find_narrowing(query: TestQuery) -> Narrowing:
    """Return how `candidates` would narrow the search."""
    found = Narrowing.RANGES
    for pattern in query.patterns:
        prefix = literal_prefix(pattern)
        if is_literal(pattern):
            continue
        if _trigrams(pattern[len(prefix) :]):
            found = Narrowing.TRIGRAMS
        elif not prefix:
            return Narrowing.NOTHING
    return found


def candidates(query: TestQuery, repository_id: int) -> Sql | None:
    """Build a SELECT of test ids that includes all matches; `None` if nothing narrows."""
    parts: list[str] = []
    values: list[Any] = []
    literals = [p for p in query.patterns if is_literal(p)]
    if literals:
        parts.append(_BY_NAME.format(f"test_name IN ({list_marks(literals)})"))
        values += [repository_id, *literals]
    for pattern in query.patterns:
        if is_literal(pattern):
            continue
        prefix = literal_prefix(pattern)
        trigrams = _trigrams(pattern[len(prefix) :])
        if trigrams:
            parts.append("SELECT rowid FROM test_trigrams WHERE test_trigrams MATCH ?")
            values.append(_match_expression([_mark(repository_id), *trigrams]))
        elif prefix:
            between = _between(prefix, upper_bound(prefix))
            parts.append(_BY_NAME.format(between.text))
            values += [repository_id, *between.values]
        else:
            return None
    return Sql(" UNION ".join(parts), tuple(values))


def indexed_text(repository_id: int, test_name: str) -> str:
    """Return the text of a test in the trigram index.

    A mark of the repository comes before the name and is a trigram of its own. A search intersects
    with it, so its cost depends on that repository, not on all of them.
    """
    return _mark(repository_id) + test_name


def upper_bound(prefix: str) -> str | None:
    """Return the least text above all texts with this prefix; `None` if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < _HIGHEST:
            # Surrogates are not characters: U+E000 follows U+D7FF.
            following = 0xE000 if code == 0xD7FF else code + 1
            return prefix[:at] + chr(following)
    return None


_BY_NAME: Final = (
    "SELECT test FROM identities INDEXED BY identities_by_test_name"
    " WHERE repository_id = ? AND health_status IS NOT NULL AND {}"
)


def _between(lower: str, upper: str | None) -> Sql:
    if upper is None:
        return Sql("test_name >= ?", (lower,))
    return Sql("test_name >= ? AND test_name < ?", (lower, upper))


def _trigrams(pattern: str) -> list[str]:
    """Return up to `_MAX_TRIGRAMS` trigrams of every match, from the longest literal runs first."""
    found: dict[str, None] = {}
    for run in sorted(literal_runs(pattern), key=len, reverse=True):
        for at in range(len(run) - _TRIGRAM + 1):
            trigram = run[at : at + _TRIGRAM]
            if not CONFUSED_BY_GLOB.intersection(trigram):
                found[trigram] = None
            if len(found) == _MAX_TRIGRAMS:
                return list(found)
    return list(found)


def _match_expression(trigrams: list[str]) -> str:
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)


def _mark(repository_id: int) -> str:
    digits = ""
    for _ in range(_TRIGRAM):
        repository_id, digit = divmod(repository_id, _MARK_BASE)
        digits += chr(_MARK_START + digit)
    return digits
