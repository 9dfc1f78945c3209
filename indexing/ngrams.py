"""The n-grams of texts: any n characters that follow each other. Pure.

A search by n-grams finds all texts that match a glob, and others too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from indexing.globs import literal_runs

T = TypeVar("T", str, bytes)

# In code points, or in bytes where a text is bytes.
BIGRAM: Final = 2
TRIGRAM: Final = 3


def trigrams_of(text: str) -> list[str]:
    """Return the trigrams of a text, each once; a text of fewer characters is returned whole."""
    found = [text[at : at + TRIGRAM] for at in range(max(1, len(text) - TRIGRAM + 1))]
    return [*dict.fromkeys(found)]


def longest_first(pattern: str) -> list[str]:
    """Return the literal runs of a pattern, the longest first."""
    return sorted(literal_runs(pattern), key=len, reverse=True)


def cover(run: T, size: int) -> Iterator[T]:
    """Yield n-grams of that size that cover a run, without needless overlap."""
    last: int = len(run) - size
    if last >= 0:
        for at in (*range(0, last, size), last):
            yield run[at : at + size]
