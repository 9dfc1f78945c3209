"""The n-grams of a text, and those that every text that matches a glob contains. Pure.

An n-gram is any n characters that follow each other. A search by n-grams finds all texts that match
a glob, and others too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from indexing.globs import literal_runs

T = TypeVar("T", str, bytes)

# In characters, which are code points.
TRIGRAM: Final = 3

# The most n-grams to look up for one pattern. More hardly narrow the result further, and each adds
# a list to intersect.
_MOST: Final = 8


def trigrams_of(text: str) -> list[str]:
    """Return the trigrams of a text, each once; a shorter text is the only one itself."""
    found = [text[at : at + TRIGRAM] for at in range(max(1, len(text) - TRIGRAM + 1))]
    return [*dict.fromkeys(found)]


def needed_trigrams(pattern: str, without: frozenset[str] = frozenset()) -> list[str]:
    """Return trigrams that every match contains, those of the longest literal runs first.

    They have none of the characters in `without`.
    """
    return first_of(
        trigram
        for run in longest_first(pattern)
        for trigram in cover(run, TRIGRAM)
        if not without.intersection(trigram)
    )


def longest_first(pattern: str) -> list[str]:
    """Return the literal runs of a pattern by their lengths."""
    return sorted(literal_runs(pattern), key=len, reverse=True)


def cover(run: T, size: int) -> Iterator[T]:
    """Yield n-grams of that size that cover a run, without needless overlap."""
    last: int = len(run) - size
    if last >= 0:
        for at in (*range(0, last, size), last):
            yield run[at : at + size]


def first_of(grams: Iterable[str]) -> list[str]:
    """Return as many of these n-grams as a search should look up, each once."""
    return list(dict.fromkeys(islice(grams, _MOST)))
