"""The glob grammar of test names: `*` is any run of characters, `?` exactly one code point.

All else is literal, case matters, nothing is normalised, and the whole name must match.
`matches` is the oracle that every backend has to agree with. Pure: no store is asked here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_WILDCARD: Final = re.compile(r"[*?]")

# How many steps an expression may take: some 0.3 milliseconds.
_MAX_STEPS: Final = 50_000


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


def count_cost(pattern: str) -> int:
    """How many wildcards there are for which places in a name have to be tried.

    Those are the `*` and whatever `?` is behind one; before the first `*` every place is known.
    """
    _, star, rest = pattern.partition("*")
    return len(star) + rest.count("*") + rest.count("?")


def matches(pattern: str, name: str) -> bool:
    """Whether the whole of `name` matches.

    Takes time of pattern plus name where there is no `?`, and else at most of pattern times name
    over 64: a few milliseconds for the longest of both.
    """
    head, *middle, tail = _pieces(pattern)
    if not _fits(head, name, 0):
        return False
    if not middle and tail is head:
        return len(name) == len(head.text)
    at = len(head.text)
    # Between two `*` the leftmost fit leaves most room for the rest, so it never has to be undone:
    # no pattern backtracks, however many `*` it has.
    for piece in middle:
        found = _find(piece, name, at)
        if found < 0:
            return False
        at = found + len(piece.text)
    start = len(name) - len(tail.text)
    return start >= at and _fits(tail, name, start)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part between runs of `*`; whether it holds a `?`."""

    text: str
    is_literal: bool


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[_Piece, ...]:
    """The parts between the runs of `*`; the only one stands at both ends where there is none."""
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
    if len(piece.text) * (len(name) - at) > _MAX_STEPS:
        return find_by_bits(piece.text, name, at)
    found = _expression(piece.text).search(name, at)
    return -1 if found is None else found.start()


def find_by_bits(text: str, name: str, at: int) -> int:
    """Where `text`, in which `?` is any character, is found first from there on; or -1.

    All places are tried at once, a bit for each.
    """
    places = len(name) - at - len(text) + 1
    if places <= 0:
        return -1
    bits = {character: bytearray(len(name) // 8 + 1) for character in text}
    for place, character in enumerate(name[at:]):
        if character in bits:
            bits[character][place >> 3] |= 1 << (place & 7)
    held = {character: int.from_bytes(mask, "little") for character, mask in bits.items()}
    fitting = (1 << places) - 1
    for offset, character in enumerate(text):
        if character != "?":
            fitting &= held[character] >> offset
            if not fitting:
                return -1
    return at + (fitting & -fitting).bit_length() - 1
