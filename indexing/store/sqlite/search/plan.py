"""Plans how a test search reads the indexes, as pieces of SQL. Pure: runs no query.

There are two ways to read a page. *In order*: walk the index of the sort order and keep the rows
that match; best if many rows match. *By candidates*: look up the few names that can match, by a
common prefix or suffix or by their n-grams, and sort them; best if few rows match. Which way is
best is only known while reading, so `strategy.py` decides which ones to try, and in which order.
Only candidates need a plan.

There are two indexes of n-grams. The terms of the trigram index are three code points; SQLite's
tokenizer finds them in the name. The terms of the bigram index are two bytes of UTF-8, so that a
single character beyond ASCII can be looked up too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from indexing.globs import is_literal, literal_prefix, literal_runs, literal_suffix
from indexing.models.tests import TestQuery
from indexing.ngrams import BIGRAM, TRIGRAM, cover, longest_first
from indexing.store.sqlite.search.conditions import CONFUSED_BY_GLOB, Sql, list_marks

# The index of endings contains this many characters from the end of each name, in reverse.
ENDING_LENGTH: Final = 16

_NAME_INDEX: Final = "identities_by_test_name"
_ENDING_INDEX: Final = "identities_by_ending"
# The same expression as in the index, because SQLite compares expressions by their text.
_ENDING: Final = " || ".join(f"substr(test_name, -{n}, 1)" for n in range(1, ENDING_LENGTH + 1))

_HIGHEST: Final = 0x10FFFF

# The most n-grams to look up for one pattern. More hardly narrow the result further, and each adds
# a list to intersect.
_MOST: Final = 8

# A row number has the test in its lower bits and the repository above them. So the rows of one
# repository are a range, and the cost of a search depends only on the size of its repository.
_TEST_BITS: Final = 36


def prefix_bounds(query: TestQuery) -> tuple[str, str | None] | None:
    """Return the range [lower, upper) that contains the names of all matches of a single pattern.

    `None` if there are several patterns, or if the range has all names. The upper bound is `None`
    if no name is above the range.
    """
    if len(query.patterns) != 1:
        return None
    prefix = literal_prefix(query.patterns[0])
    return (prefix, upper_bound(prefix)) if prefix else None


@dataclass(frozen=True, slots=True)
class NameRange:
    """A range of an index that contains all matches; `exact` if it contains nothing else."""

    index: str
    condition: Sql
    exact: bool


def name_ranges(query: TestQuery) -> list[NameRange]:
    """Return the ranges of names for a single pattern: by its prefix, and by its suffix."""
    if len(query.patterns) != 1:
        return []
    (pattern,) = query.patterns
    prefix, suffix = literal_prefix(pattern), literal_suffix(pattern)
    found: list[NameRange] = []
    if prefix:
        rest = pattern[len(prefix) :]
        exact = bool(rest) and not rest.strip("*")
        found.append(NameRange(_NAME_INDEX, _beginning(prefix), exact))
    if suffix:
        exact = len(suffix) <= ENDING_LENGTH and not pattern[: -len(suffix)].strip("*")
        found.append(NameRange(_ENDING_INDEX, _ending(suffix), exact))
    return found


def narrow_further(query: TestQuery, repository_id: int) -> Sql | None:
    """Build a SELECT of test ids to try if the `name_ranges` are too large; `None` if useless.

    For a pattern with a single literal run, no candidates are narrower than its range.
    """
    if not name_ranges(query):
        return candidates(query, repository_id)
    (pattern,) = query.patterns
    return _by_grams(pattern, repository_id) if len(literal_runs(pattern)) > 1 else None


def candidates(query: TestQuery, repository_id: int) -> Sql | None:
    """Build a SELECT of test ids that include all matches; `None` if nothing narrows the search."""
    parts: list[Sql] = []
    literals = tuple(p for p in query.patterns if is_literal(p))
    if literals:
        names = Sql(f"test_name IN ({list_marks(literals)})", literals)
        parts.append(_in_index(_NAME_INDEX, names, repository_id))
    for pattern in query.patterns:
        if not is_literal(pattern):
            part = _narrow(pattern, repository_id)
            if part is None:
                return None
            parts.append(part)
    text = " UNION ".join(part.text for part in parts)
    return Sql(text, tuple(value for part in parts for value in part.values))


def _narrow(pattern: str, repository_id: int) -> Sql | None:
    prefix, suffix = literal_prefix(pattern), literal_suffix(pattern)
    # The range of a suffix has fewer names than a search for the trigrams of the suffix.
    if not find_trigrams(_middle_of(pattern)):
        if suffix and (len(suffix) >= TRIGRAM or not prefix):
            return _in_index(_ENDING_INDEX, _ending(suffix), repository_id)
        if prefix:
            return _in_index(_NAME_INDEX, _beginning(prefix), repository_id)
    return _by_grams(pattern, repository_id)


def _by_grams(pattern: str, repository_id: int) -> Sql | None:
    middle = _middle_of(pattern)
    # Many names share the trigrams of a common prefix or suffix; two characters in the middle of
    # the pattern narrow the search more.
    bigrams = [] if find_trigrams(middle) else find_bigrams(middle)
    table = "test_bigrams" if bigrams else "test_trigrams"
    grams = bigrams or find_trigrams(pattern)
    if not grams:
        return None
    first, end = _rows_of(repository_id)
    return Sql(
        f"SELECT rowid - ? FROM {table} WHERE {table} MATCH ? AND rowid >= ? AND rowid < ?",
        (first, _match_all(grams), first, end),
    )


def _middle_of(pattern: str) -> str:
    return pattern[len(literal_prefix(pattern)) : len(pattern) - len(literal_suffix(pattern))]


def upper_bound(prefix: str) -> str | None:
    """Return the least text that is greater than all texts with this prefix.

    `None` if there is no such text.
    """
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < _HIGHEST:
            # Surrogates are not characters, so U+E000 follows U+D7FF.
            following = 0xE000 if code == 0xD7FF else code + 1
            return prefix[:at] + chr(following)
    return None


def _in_index(index: str, condition: Sql, repository_id: int) -> Sql:
    return Sql(
        f"SELECT test FROM identities INDEXED BY {index}"
        f" WHERE repository_id = ? AND health_status IS NOT NULL AND {condition.text}",
        (repository_id, *condition.values),
    )


def _beginning(prefix: str) -> Sql:
    return _between("test_name", prefix)


def _ending(suffix: str) -> Sql:
    return _between(f"({_ENDING})", suffix[: -ENDING_LENGTH - 1 : -1])


def _between(column: str, prefix: str) -> Sql:
    upper = upper_bound(prefix)
    if upper is None:
        return Sql(f"{column} >= ?", (prefix,))
    return Sql(f"{column} >= ? AND {column} < ?", (prefix, upper))


def row_of(repository_id: int, test: int) -> int:
    """Return the row number of a test in both indexes."""
    return repository_id << _TEST_BITS | test


def _rows_of(repository_id: int) -> tuple[int, int]:
    """Return the range [first, end) of a repository's row numbers."""
    return row_of(repository_id, 0), row_of(repository_id + 1, 0)


def bigram_text(test_name: str) -> str:
    """Return the text of a name in the bigram index: each pair of bytes as a word of four digits.

    The pairs are cut from the end, so a single byte may be left over; no search looks for its word.
    """
    name = test_name.encode()
    return f"{name.hex(' ', BIGRAM)} {name[:-1].hex(' ', BIGRAM)}"


def find_trigrams(pattern: str) -> list[str]:
    """Return trigrams that every match contains, those of the longest literal runs first."""
    # SQLite's tokenizer confuses the same characters as its GLOB.
    return _first(
        trigram
        for run in longest_first(pattern)
        for trigram in cover(run, TRIGRAM)
        if not CONFUSED_BY_GLOB.intersection(trigram)
    )


def find_bigrams(pattern: str) -> list[str]:
    """Return bigrams that every match contains, as words of the index."""
    return _first(
        bigram.hex() for run in longest_first(pattern) for bigram in cover(run.encode(), BIGRAM)
    )


def _match_all(grams: list[str]) -> str:
    """Return the full-text query for rows that have all of these n-grams."""
    return " AND ".join('"' + gram.replace('"', '""') + '"' for gram in grams)


def _first(grams: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(islice(grams, _MOST)))
