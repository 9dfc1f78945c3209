"""The form of names in the two n-gram indexes, and the n-grams of a pattern. Pure.

The terms of the trigram index are three code points; SQLite's tokenizer finds them in the name. The
terms of the bigram index are two bytes of UTF-8, so that a single character beyond ASCII can be
looked up too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from indexing.globs import literal_runs
from indexing.store.sqlite.search.conditions import CONFUSED_BY_GLOB

T = TypeVar("T", str, bytes)

# The most n-grams to look up for one pattern. More hardly narrow the result further, and each adds
# a list to intersect.
_MOST: Final = 8
TRIGRAM: Final = 3
_BIGRAM: Final = 2

# A row number has the test in its lower bits and the repository above them. So the rows of one
# repository are a range, and the cost of a search depends only on the size of its repository.
_TEST_BITS: Final = 36


def row_of(repository_id: int, test: int) -> int:
    """Return the row number of a test in both indexes."""
    return repository_id << _TEST_BITS | test


def rows_of(repository_id: int) -> tuple[int, int]:
    """Return the range [first, end) of a repository's row numbers."""
    return row_of(repository_id, 0), row_of(repository_id + 1, 0)


def bigram_text(test_name: str) -> str:
    """Return the text of a name in the bigram index: each pair of bytes as a word of four digits.

    The pairs are cut from the end, so a single byte may be left over; no search looks for its word.
    """
    name = test_name.encode()
    return f"{name.hex(' ', _BIGRAM)} {name[:-1].hex(' ', _BIGRAM)}"


def find_trigrams(pattern: str) -> list[str]:
    """Return trigrams that every match contains, those of the longest literal runs first."""
    # SQLite's tokenizer confuses the same characters as its GLOB.
    return _first(
        trigram
        for run in _longest_first(pattern)
        for trigram in _cover(run, TRIGRAM)
        if not CONFUSED_BY_GLOB.intersection(trigram)
    )


def find_bigrams(pattern: str) -> list[str]:
    """Return bigrams that every match contains, as words of the index."""
    return _first(
        bigram.hex() for run in _longest_first(pattern) for bigram in _cover(run.encode(), _BIGRAM)
    )


def match_all(grams: list[str]) -> str:
    """Return the full-text query for rows that have all of these n-grams."""
    return " AND ".join('"' + gram.replace('"', '""') + '"' for gram in grams)


def _longest_first(pattern: str) -> list[str]:
    return sorted(literal_runs(pattern), key=len, reverse=True)


def _cover(run: T, size: int) -> Iterator[T]:
    """Yield n-grams that cover a run, without needless overlap."""
    last: int = len(run) - size
    if last >= 0:
        for at in (*range(0, last, size), last):
            yield run[at : at + size]


def _first(grams: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(islice(grams, _MOST)))
