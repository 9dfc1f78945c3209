"""The trigrams of a test name, as a row of the search has them. Pure.

The end of a name counts as a character, so that the end of a pattern has trigrams of its own, and
any two characters of a name are the start of a trigram.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

import orjson

from indexing.globs import literal_prefix
from indexing.ngrams import BIGRAM, TRIGRAM, cover, longest_first, trigrams_of

FIELD: Final = "trigrams"

_END: Final = "\0"
_LAST_ASCII: Final = "\x7f"
_LAST: Final = "\U0010ffff"
# Everything but letters and digits may have a meaning in a regular expression of the engine.
_SPECIAL: Final = re.compile(r"([^A-Za-z0-9])")
_ESCAPE: Final = r"\\\1"
# A longer name has this term instead of trigrams, so that a row does not have thousands of terms.
# Every search for trigrams finds it, too.
_LONG: Final = "long"
_LONGEST_NAME: Final = 500
# How many names keep their encoded terms, because reports of one repository repeat them. Half a
# kilobyte each, and at most 8 KB.
_KEPT_NAMES: Final = 4_096
# The most trigrams to look up for one pattern, and the most bigrams: each stands for all trigrams
# that begin with it.
_MOST: Final = 12
_MOST_BIGRAMS: Final = 2


@lru_cache(_KEPT_NAMES)
def encode_trigrams(test_name: str) -> orjson.Fragment:
    """Return the terms to store for a name, as JSON."""
    return orjson.Fragment(orjson.dumps(trigrams_for(test_name)))


def trigrams_for(test_name: str) -> list[str]:
    """Return the terms to store for a name."""
    return [_LONG] if len(test_name) > _LONGEST_NAME else trigrams_of(test_name + _END)


def can_look_up(pattern: str) -> bool:
    """Return whether its n-grams narrow the glob down more than its literal prefix does."""
    return len(_runs_after_prefix(pattern)[0]) >= TRIGRAM or bool(bigrams_in(pattern))


def ngrams_clause(pattern: str, routing: str) -> dict[str, Any]:
    """Build the query for the rows of a repository whose names may match the glob.

    The node may refuse it, if more trigrams begin with its bigrams than a query may have terms.
    """
    each: list[dict[str, Any]] = [{"term": {FIELD: trigram}} for trigram in trigrams_in(pattern)]
    each += [_beginning_with(bigram) for bigram in bigrams_in(pattern)]
    names = [{"bool": {"filter": each}}, {"term": {FIELD: _LONG}}]
    own = {"term": {"repository_id": routing}}
    return {"bool": {"filter": [own, {"bool": {"should": names}}]}}


def trigrams_in(pattern: str) -> list[str]:
    """Return trigrams of every name that matches the glob and is not long.

    The end of a run comes first: names with a common path differ there. Then come those that
    overlap with them, without which one in twenty rows did not match.
    """
    runs = _runs_after_prefix(pattern)
    covering = (gram for run in runs for gram in _backwards(run))
    overlapping = (gram for run in runs if len(run) > TRIGRAM for gram in trigrams_of(run))
    trigrams = chain(covering, overlapping, _backwards(literal_prefix(pattern)))
    return [*islice(dict.fromkeys(trigrams), _MOST)]


def bigrams_in(pattern: str) -> list[str]:
    """Return two characters each to look up if nothing after the literal prefix has a trigram.

    Beyond ASCII, there may be thousands of trigrams that begin with them.
    """
    runs = _runs_after_prefix(pattern)
    if len(runs[0]) >= TRIGRAM:
        return []
    bigrams = (run for run in runs if len(run) == BIGRAM and _END not in run and run.isascii())
    return [*islice(dict.fromkeys(bigrams), _MOST_BIGRAMS)]


def _beginning_with(bigram: str) -> dict[str, Any]:
    """Build the query for the rows with any trigram that begins with these two characters.

    A query of each such trigram reads only the rows that no other clause has ruled out, but each
    takes the node a moment. So those with a third character beyond ASCII, of which one repository
    may have thousands, are one query, which reads the rows of all repositories.
    """
    expression = f"{_SPECIAL.sub(_ESCAPE, bigram)}[{_END}-{_LAST_ASCII}]"
    frequent = {"value": expression, "flags": "NONE", "rewrite": "constant_score_boolean"}
    others = {"gt": f"{bigram}{_LAST_ASCII}", "lte": f"{bigram}{_LAST}"}
    each = [{"regexp": {FIELD: frequent}}, {"range": {FIELD: others}}]
    return {"bool": {"should": each}}


def _runs_after_prefix(pattern: str) -> list[str]:
    """Return the literal runs after the literal prefix, the longest first, and with the end."""
    return longest_first(pattern[len(literal_prefix(pattern)) :] + _END)


def _backwards(run: str) -> Iterator[str]:
    """Yield trigrams that cover a run, from its end on."""
    return (gram[::-1] for gram in cover(run[::-1], TRIGRAM))
