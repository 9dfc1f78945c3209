"""The glob grammar of test names: `*` is any run of characters, `?` exactly one code point.

All else is literal, case matters, nothing is normalised, and the whole name must match.
`matches` is the oracle that every backend has to agree with. Pure: no store is asked here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WILDCARD: Final = re.compile(r"[*?]")


def is_literal(pattern: str) -> bool:
    """Whether the pattern matches one name only: itself."""
    return _WILDCARD.search(pattern) is None


def literal_prefix(pattern: str) -> str:
    """What every matching name begins with; possibly nothing."""
    first = _WILDCARD.search(pattern)
    return pattern if first is None else pattern[: first.start()]


def literal_runs(pattern: str) -> list[str]:
    """The stretches between wildcards, each of which every matching name holds."""
    return [run for run in _WILDCARD.split(pattern) if run]


def matches(pattern: str, name: str) -> bool:
    """Whether the whole of `name` matches; in time of at most pattern times name."""
    pieces = _pieces(pattern)
    if len(pieces) == 1:
        return pieces[0].fullmatch(name) is not None
    head = pieces[0].match(name)
    if head is None:
        return False
    at = head.end()
    # Between two `*` the leftmost fit leaves most room for the rest, so it never has to be undone:
    # no pattern backtracks, however many `*` it has.
    for piece in pieces[1:-1]:
        found = piece.search(name, at)
        if found is None:
            return False
        at = found.end()
    tail_length = _fixed_length(pattern)
    return len(name) - tail_length >= at and (
        pieces[-1].fullmatch(name, len(name) - tail_length) is not None
    )


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[re.Pattern[str], ...]:
    """The parts between the runs of `*`, as expressions of a fixed length each."""
    parts = re.split(r"\*+", pattern)
    return tuple(
        re.compile("".join("." if c == "?" else re.escape(c) for c in part), re.DOTALL)
        for part in parts
    )


def _fixed_length(pattern: str) -> int:
    """How many code points the part behind the last `*` takes."""
    return len(pattern) - pattern.rfind("*") - 1
