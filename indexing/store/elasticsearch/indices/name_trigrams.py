"""The trigrams of a test name, as a row of the search has them. Pure.

The end of the name counts as a character, so that the end of a pattern has trigrams of its own.
"""

from __future__ import annotations

from typing import Final

from indexing.ngrams import needed_trigrams, trigrams_of

FIELD: Final = "trigrams"

_END: Final = "\0"


def trigrams_for(test_name: str) -> list[str]:
    """Return the trigrams to store for a name."""
    return trigrams_of(test_name + _END)


def trigrams_in(pattern: str) -> list[str]:
    """Return stored trigrams of every name that matches the glob; none if it is too short."""
    return needed_trigrams(pattern + _END)
