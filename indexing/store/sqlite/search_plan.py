"""How a test search is to be read off the indexes: SQL in pieces. Pure: nothing is asked here.

There are two ways to a page. *In order*: walk the index of the asked order and keep what matches;
best where much matches. *By candidates*: look up the few names that can match, by a common
beginning or by the trigrams they hold, and sort them; best where little matches. Which one is
best shows only on the way, so the store tries one after the other, each within a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from indexing.globs import is_literal, literal_prefix, literal_runs
from indexing.models.tests import TestQuery, TestSort

# Every order ends in the three names, which are unique together.
ORDERS: Final = {
    TestSort.EXECUTIONS_COUNT: ("executions_count", "test_name", "pipeline_name", "job_name"),
    TestSort.TEST_NAME: ("test_name", "pipeline_name", "job_name"),
    TestSort.PIPELINE_NAME: ("pipeline_name", "test_name", "job_name"),
    TestSort.JOB_NAME: ("job_name", "test_name", "pipeline_name"),
}

# The SQL function of `indexing.globs.matches`, for what GLOB does not tell apart.
EXACT_MATCH: Final = "glob_matches"

# SQLite reads these two and every surrogate as U+FFFD, so its GLOB takes all three for one.
_CONFUSED_BY_GLOB: Final = frozenset("\ufffd\ufffe\uffff")

# GLOB takes up to pattern times name for each name. This many characters over the longest name take
# half a millisecond, which is as much as may go by between two looks at the clock.
_HEAVY_LENGTH: Final = 64

# More trigrams of one pattern narrow hardly further, and each costs a list to step through.
_MAX_TRIGRAMS: Final = 12
_TRIGRAM: Final = 3

# Digits of the mark of a repository in the trigram index: the last private plane of Unicode.
_MARK_START: Final = 0x100000
_MARK_BASE: Final = 0xFFFE

_HIGHEST: Final = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL and the values of its parameters, in order."""

    text: str
    values: tuple[Any, ...] = ()


def is_heavy(pattern: str) -> bool:
    """Whether matching one long name alone may take too long for the event loop."""
    return len(pattern[len(literal_prefix(pattern)) :].strip("*")) > _HEAVY_LENGTH


def name_condition(query: TestQuery) -> Sql:
    """What holds for the identities whose names match any pattern; exact."""
    literals = tuple(p for p in query.patterns if is_literal(p))
    conditions: list[str] = []
    values: list[str] = []
    if literals:
        conditions.append(f"test_name IN ({_marks(literals)})")
        values += literals
    for pattern in query.patterns:
        if is_literal(pattern):
            continue
        if not pattern.strip("*"):
            return Sql("1")
        exact = f"{EXACT_MATCH}(?, test_name)"
        if is_heavy(pattern) and "?" not in pattern:
            # Here the oracle is the faster one. With `?` it is not, and would hold the
            # interpreter's lock for as long as one long name takes.
            conditions.append(exact)
            values.append(pattern)
            continue
        # GLOB has one more special character, which a class of itself makes literal.
        globbed = pattern.replace("[", "[[]")
        if _CONFUSED_BY_GLOB.intersection(pattern):
            conditions.append(f"(test_name GLOB ? AND {exact})")
            values += [globbed, pattern]
        else:
            conditions.append("test_name GLOB ?")
            values.append(globbed)
    return Sql(f"({' OR '.join(conditions)})", tuple(values))


def filter_condition(query: TestQuery) -> Sql:
    """What holds for the identities of the asked pipelines and jobs."""
    text = ""
    values: list[str] = []
    for column, operator, names in (
        ("pipeline_name", "IN", query.pipelines),
        ("pipeline_name", "NOT IN", query.pipelines_excluded),
        ("job_name", "IN", query.jobs),
        ("job_name", "NOT IN", query.jobs_excluded),
    ):
        if names:
            text += f" AND {column} {operator} ({_marks(names)})"
            values += names
    return Sql(text, tuple(values))


def prefix_bounds(query: TestQuery) -> tuple[str, str | None] | None:
    """The range [lower, upper) of names that all matches lie in, when there is one pattern.

    `None` where every name is in it; an upper bound of `None` where there is no name above.
    """
    if len(query.patterns) != 1:
        return None
    prefix = literal_prefix(query.patterns[0])
    return (prefix, upper_bound(prefix)) if prefix else None


@dataclass(frozen=True, slots=True)
class NameRange:
    """The names between two bounds; `exact` where that is all that the pattern asks for."""

    condition: Sql
    exact: bool


def name_range(query: TestQuery) -> NameRange | None:
    """The range of names where that alone narrows: one pattern, nothing to look up in its rest.

    A range of names is read faster than the trigrams that begin them are intersected.
    """
    bounds = prefix_bounds(query)
    if bounds is None:
        return None
    rest = query.patterns[0][len(bounds[0]) :]
    if _trigrams(rest):
        return None
    return NameRange(_between(*bounds), exact=bool(rest) and not rest.strip("*"))


class Narrowing(Enum):
    """What candidates are found by, of all patterns that are not whole names."""

    # At least one can match anything.
    NOTHING = "nothing"
    RANGES = "ranges"
    # At least one of them.
    TRIGRAMS = "trigrams"


def find_narrowing(query: TestQuery) -> Narrowing:
    """What `candidates` would look by."""
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
    """A SELECT of the tests (their `id`) that hold all that match; `None` where nothing narrows."""
    parts: list[str] = []
    values: list[Any] = []
    literals = [p for p in query.patterns if is_literal(p)]
    if literals:
        parts.append(_BY_NAME.format(f"test_name IN ({_marks(literals)})"))
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
    """What the trigram index holds of a test.

    The name follows a mark of the repository that is a trigram of its own: a search intersects
    with it, and costs what that repository holds, not what all of them do.
    """
    return _mark(repository_id) + test_name


def upper_bound(prefix: str) -> str | None:
    """The least text above all that begin with the prefix; `None` where there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < _HIGHEST:
            # Surrogates are no characters: the one after U+D7FF is U+E000.
            following = 0xE000 if code == 0xD7FF else code + 1
            return prefix[:at] + chr(following)
    return None


_BY_NAME: Final = (
    "SELECT test FROM identities INDEXED BY identities_by_test_name"
    " WHERE repository_id = ? AND executions_count IS NOT NULL AND {}"
)


def _between(lower: str, upper: str | None) -> Sql:
    if upper is None:
        return Sql("test_name >= ?", (lower,))
    return Sql("test_name >= ? AND test_name < ?", (lower, upper))


def _trigrams(pattern: str) -> list[str]:
    """Up to `_MAX_TRIGRAMS` that every match holds, out of the longest literal runs first."""
    found: dict[str, None] = {}
    for run in sorted(literal_runs(pattern), key=len, reverse=True):
        for at in range(len(run) - _TRIGRAM + 1):
            trigram = run[at : at + _TRIGRAM]
            if not _CONFUSED_BY_GLOB.intersection(trigram):
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


def _marks(values: tuple[Any, ...] | list[Any]) -> str:
    return ", ".join("?" * len(values))
