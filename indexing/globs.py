"""The glob grammar of test names: `*` is any run of characters, `?` exactly one code point.

Everything else is literal, case matters, nothing is normalised, and the whole name must match.
`matches` defines the grammar: every backend has to agree with it. Pure: no store access.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_WILDCARD: Final = re.compile(r"[*?]")

# The most steps for which a regular expression is used: they take about 0.3 milliseconds.
_MAX_STEPS: Final = 50_000


def is_literal(pattern: str) -> bool:
    """Return whether the pattern has no wildcard and so matches only itself."""
    return _WILDCARD.search(pattern) is None


def literal_prefix(pattern: str) -> str:
    """Return the prefix of every matching name; it may be empty."""
    first = _WILDCARD.search(pattern)
    return pattern if first is None else pattern[: first.start()]


def literal_suffix(pattern: str) -> str:
    """Return the suffix of every matching name; it may be empty."""
    return _WILDCARD.split(pattern)[-1]


def literal_runs(pattern: str) -> list[str]:
    """Return the texts between wildcards; every matching name contains each of them."""
    return [run for run in _WILDCARD.split(pattern) if run]


def count_cost(pattern: str) -> int:
    """Count the wildcards that make the matcher try several positions in a name.

    These are each `*`, and each `?` after the first `*`; before that, all positions are fixed.
    """
    _, star, rest = pattern.partition("*")
    return len(star) + rest.count("*") + rest.count("?")


def matches(pattern: str, name: str) -> bool:
    """Return whether the whole of `name` matches.

    Without a `?`, the time is linear in the lengths of pattern and name. With one, it is at most
    proportional to their product divided by 64: a few milliseconds for the longest of both, however
    many `*` divide the pattern.
    """
    head, *middle, tail = _pieces(pattern)
    if not _fits(head, name, 0):
        return False
    if not middle and tail is head:
        return len(name) == len(head.text)
    at = len(head.text)
    # Between two `*` the leftmost match leaves most room for the rest, so it never has to be
    # undone: no pattern backtracks, however many `*` it has.
    for piece in middle:
        found = _find(piece, name, at)
        if found < 0:
            return False
        at = found + len(piece.text)
    start = len(name) - len(tail.text)
    return start >= at and _fits(tail, name, start)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The text between two runs of `*`, and whether it contains a `?`."""

    text: str
    is_literal: bool


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[_Piece, ...]:
    """Split at the runs of `*`; without a `*`, the single piece is both first and last."""
    found = tuple(_Piece(text, "?" not in text) for text in re.split(r"\*+", pattern))
    return found if len(found) > 1 else found * 2


@lru_cache(maxsize=1024)
def _expression(text: str) -> re.Pattern[str]:
    return re.compile("".join("." if c == "?" else re.escape(c) for c in text), re.DOTALL)


def _fits(piece: _Piece, name: str, at: int) -> bool:
    if piece.is_literal:
        return name.startswith(piece.text, at)
    there = name[at : at + len(piece.text)]
    return len(there) == len(piece.text) and all(
        one in ("?", other) for one, other in zip(piece.text, there, strict=True)
    )


def _find(piece: _Piece, name: str, at: int) -> int:
    if piece.is_literal:
        return name.find(piece.text, at)
    room = len(name) - at
    if len(piece.text) > room:
        # The expression of a long text takes milliseconds to compile.
        return -1
    if len(piece.text) * room > _MAX_STEPS:
        return find_by_bits(piece.text, name, at)
    found = _expression(piece.text).search(name, at)
    return -1 if found is None else found.start()


def find_by_bits(text: str, name: str, at: int) -> int:
    """Return the first position of `text` in `name` from `at` on, or -1; `?` is any character.

    Tries all positions at once, with one bit for each.
    """
    places = len(name) - at - len(text) + 1
    if places <= 0:
        return -1
    held = _find_places(name)
    fitting = (1 << places) - 1
    for place, character in enumerate(text, at):
        if character != "?":
            fitting &= held.get(character, 0) >> place
            if not fitting:
                return -1
    return at + (fitting & -fitting).bit_length() - 1


# The pieces of a pattern are searched one after another in the same name. It may take a megabyte.
@lru_cache(maxsize=4)
def _find_places(name: str) -> Mapping[str, int]:
    """Return for each character of the name an integer with a bit for each of its places."""
    places: dict[str, bytearray] = {}
    for place, character in enumerate(name):
        mask = places.get(character)
        if mask is None:
            mask = places[character] = bytearray(len(name) // 8 + 1)
        mask[place >> 3] |= 1 << (place & 7)
    return {character: int.from_bytes(mask, "little") for character, mask in places.items()}
