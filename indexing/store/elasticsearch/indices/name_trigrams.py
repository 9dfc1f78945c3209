"""The trigrams of a test name, as a row of the search has them. Pure.

The end of a name counts as a character, so that the end of a pattern has trigrams of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

from indexing.globs import literal_prefix
from indexing.ngrams import TRIGRAM, cover, longest_first, trigrams_of

FIELD: Final = "trigrams"

_END: Final = "\0"
# A longer name has this term instead of trigrams, so that a row does not have thousands of terms.
# Every search for trigrams finds it, too.
_LONG: Final = "long"
_LONGEST_NAME: Final = 500
# The most trigrams to look up for one pattern.
_MOST: Final = 12


def trigrams_for(test_name: str) -> list[str]:
    """Return the terms to store for a name."""
    return [_LONG] if len(test_name) > _LONGEST_NAME else trigrams_of(test_name + _END)


def has_trigrams(pattern: str) -> bool:
    """Return whether trigrams narrow the glob down more than its literal prefix does."""
    return bool(_after_prefix(pattern))


def trigrams_clause(pattern: str, routing: str) -> dict[str, Any]:
    """Build the query for the rows of a repository whose names may match the glob."""
    each = [{"term": {FIELD: trigram}} for trigram in trigrams_in(pattern)]
    names = [{"bool": {"filter": each}}, {"term": {FIELD: _LONG}}]
    own = {"term": {"repository_id": routing}}
    return {"bool": {"filter": [own, {"bool": {"should": names}}]}}


def trigrams_in(pattern: str) -> list[str]:
    """Return trigrams of every name that matches the glob and is not long.

    The end of a run comes first: names with a common path differ there.
    """
    trigrams = chain(_after_prefix(pattern), _backwards(literal_prefix(pattern)))
    return [*dict.fromkeys(islice(trigrams, _MOST))]


def _after_prefix(pattern: str) -> list[str]:
    rest = pattern[len(literal_prefix(pattern)) :] + _END
    return [trigram for run in longest_first(rest) for trigram in _backwards(run)]


def _backwards(run: str) -> Iterator[str]:
    """Yield trigrams that cover a run, from its end on."""
    return (gram[::-1] for gram in cover(run[::-1], TRIGRAM))
